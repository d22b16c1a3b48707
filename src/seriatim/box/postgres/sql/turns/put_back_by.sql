-- Purpose: put_back.sql with the transaction or subtransaction that did it.
-- Locks: the entries and the group, which only a turn locks.
-- Index: entries_pkey, known_groups_pkey.
SELECT {schema}.put_back_by(
    %(of_queue)s, %(of_group)s, %(entry_ids)s::bigint[], %(ordinals)s::bigint[], %(lates)s::boolean[]
)::text
