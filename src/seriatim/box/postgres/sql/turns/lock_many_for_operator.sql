-- Purpose: lock several groups for an operator, with a limited wait for each.
-- Locks: the groups' advisory locks, until the transaction ends.
-- Index: none; the version is the last of changes_pkey.
SELECT one.group_keys, coalesce(%(now_us)s::bigint, one.now_us) AS now_us, one.isolation, one.version
FROM {schema}.lock_many_for_operator(%(queue_id)s, %(group_keys)s::text[], %(patience_ms)s) AS one
