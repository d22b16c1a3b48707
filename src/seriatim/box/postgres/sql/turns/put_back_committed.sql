-- Purpose: put back what was handed out in a transaction that an application has committed without ending it.
-- Caller: turns.py, in a transaction of the box's own.
-- Locks: the group's advisory lock, for which it waits; the entries and the group, which only a turn locks.
-- Index: entries_pkey, known_groups_pkey.
SELECT {schema}.put_back_committed(
    %(queue_id)s, %(group_key)s, %(entry_ids)s::bigint[], %(ordinals)s::bigint[], %(late)s::boolean[]
)
