-- Purpose: make the settings of a migration, until the transaction ends; return how long its connection waits for a
-- lock, 0: for ever.
WITH known AS MATERIALIZED (
    SELECT setting::integer AS lock_timeout_ms FROM pg_settings WHERE name = 'lock_timeout'
), done AS MATERIALIZED (
    SELECT set_config(name, value, TRUE) FROM unnest(%(names)s::text[], %(values)s::text[]) AS wanted (name, value)
)
SELECT known.lock_timeout_ms, (SELECT count(*) FROM done) AS settings FROM known
