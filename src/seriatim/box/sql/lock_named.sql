-- Purpose: lock one group, if it has something to do and nobody else has it.
-- Caller: deliver.py.
-- Locks: the group's advisory lock, until the transaction ends.
-- Index: entries_of_group, groups_pkey.
SELECT group_keys, now_us, isolation, version, unrouted, many
FROM {schema}.lock_groups(%(queue_id)s, %(group_key)s, 1, %(now_us)s)
