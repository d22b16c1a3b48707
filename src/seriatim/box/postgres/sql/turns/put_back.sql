-- Purpose: what was handed out and not worked on is queued again.
-- Caller: turns.py, under the lock of its group.
-- Locks: the entries and the group, which only a turn locks.
-- Index: entries_pkey, known_groups_pkey.
SELECT {schema}.put_back(
    %(queue_id)s, %(group_key)s, %(entry_ids)s::bigint[], %(ordinals)s::bigint[], %(late)s::boolean[]
)
