-- Purpose: make a lease of what was handed out, and put it back.
-- Caller: lease.py, which has received it in the same transaction.
-- Locks: the entries and the group, which only a turn locks.
-- Index: entries_pkey, known_groups_pkey.
SELECT token, incarnation FROM {schema}.claim_lease(
    %(queue_id)s, %(group_key)s, %(entry_ids)s::bigint[], %(ordinals)s::bigint[], %(late)s::boolean[], %(how_many)s,
    %(worker)s, %(period)s
)
