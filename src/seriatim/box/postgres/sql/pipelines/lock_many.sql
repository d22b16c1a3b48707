-- Purpose: lock many groups of a pipeline's queue that have something to do.
-- Locks: an advisory lock for each group, until the transaction ends.
-- Index: groups_ready, groups_due, entries_arrived and requests_of_queue, each from its beginning.
SELECT
    {schema}.lock_many(%(queue_id)s, %(how_many)s, moment.now_us) AS group_keys,
    moment.now_us,
    {schema}.version() AS version
FROM (SELECT {schema}.now_us() AS now_us) AS moment
