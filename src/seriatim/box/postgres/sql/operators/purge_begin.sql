-- Purpose: let one clean-up at a time work on a box; its statements use indexes, whatever the statistics of the tables.
-- Locks: an advisory lock of the schema, until the transaction ends; only a clean-up waits for it. After that it waits
-- a quarter of a second for any lock, because others would wait behind it.
SELECT
    {schema}.take_lock({schema}.lock_of('purge'), 'the clean-up'),
    set_config('lock_timeout', '250ms', TRUE),
    set_config('enable_seqscan', 'off', TRUE),
    set_config('enable_hashjoin', 'off', TRUE),
    set_config('enable_mergejoin', 'off', TRUE)
