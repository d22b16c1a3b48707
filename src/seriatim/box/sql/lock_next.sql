-- Purpose: lock the next groups of a queue that have something to do, those of lowest rank first.
-- Caller: deliver.py.
-- Locks: an advisory lock for each group, until the transaction ends.
-- Index: groups_ready, groups_due and entries_arrived, merged by rank; entries_of_group once a candidate.
SELECT
    {schema}.lock_next(%(queue_id)s, %(how_many)s, moment.now_us) AS group_keys,
    moment.now_us,
    current_setting('transaction_isolation') AS isolation,
    (SELECT max(version) FROM {schema}.changes) AS version
FROM (SELECT coalesce(%(now_us)s::bigint, {schema}.now_us()) AS now_us) AS moment
