-- Purpose: put messages of one group that were set aside back into their queue; answers how many.
-- Caller: requeue.py, under the lock of their group, and which has locked their rows.
-- Locks: the row of the group, which only a turn locks.
-- Index: aside_pkey, spool_pkey, known_groups_pkey.
SELECT {schema}.requeue(
    %(queue_id)s, %(group_key)s, %(entry_ids)s::bigint[], %(statuses)s::text[], %(ordinals)s::bigint[],
    %(to_the_end)s::boolean[]
) AS messages
