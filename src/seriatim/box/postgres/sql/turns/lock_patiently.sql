-- Purpose: lock one group for an operator, who waits for it at most so long.
-- Caller: turns.py.
-- Locks: the group's advisory lock, until the transaction ends.
-- Index: none; the version is the last of changes_pkey.
SELECT
    CASE WHEN {schema}.lock_patiently(%(queue_id)s, %(group_key)s, %(patience_ms)s)
        THEN ARRAY[%(group_key)s] ELSE ARRAY[]::text[] END AS group_keys,
    coalesce(%(now_us)s::bigint, {schema}.now_us()) AS now_us,
    current_setting('transaction_isolation') AS isolation,
    (SELECT max(version) FROM {schema}.changes) AS version
