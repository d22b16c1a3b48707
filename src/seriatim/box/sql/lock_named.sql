-- Purpose: lock one group, if it has something to do and nobody else has it.
-- Caller: deliver.py.
-- Locks: the group's advisory lock, until the transaction ends.
-- Index: entries_of_group, groups_pkey.
SELECT
    CASE WHEN {schema}.lock_group(%(queue_id)s, %(group_key)s, moment.now_us)
        THEN ARRAY[%(group_key)s] ELSE ARRAY[]::text[] END AS group_keys,
    moment.now_us,
    current_setting('transaction_isolation') AS isolation,
    (SELECT max(version) FROM {schema}.changes) AS version
FROM (SELECT coalesce(%(now_us)s::bigint, {schema}.now_us()) AS now_us) AS moment
