-- Purpose: lock one group for an operator, with a limited wait.
-- Locks: the group's advisory lock, until the transaction ends.
-- Index: none; the version is the last of changes_pkey.
SELECT
    CASE WHEN one.locked THEN ARRAY[%(group_key)s] ELSE ARRAY[]::text[] END AS group_keys,
    coalesce(%(now_us)s::bigint, one.now_us) AS now_us, one.isolation, one.version
FROM {schema}.lock_for_operator(%(queue_id)s, %(group_key)s, %(patience_ms)s) AS one
