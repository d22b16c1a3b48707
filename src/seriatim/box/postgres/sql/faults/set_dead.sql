-- Purpose: set messages aside as dead that a handler failed at.
-- Caller: faults.py, under the lock of their group.
-- Locks: the entries, which only a turn locks.
-- Index: entries_pkey, known_groups_pkey.
SELECT {schema}.set_dead(%(queue_id)s, %(group_key)s, %(entry_ids)s::bigint[], %(why)s)
