-- Purpose: what was handed out is done; it goes, or is kept as history.
-- Caller: turns.py, under the lock of its group.
-- Locks: the entries, which only a turn locks; the spool's rows that go with them.
-- Index: entries_pkey, spool_pkey.
SELECT {schema}.complete(
    %(queue_id)s, %(entry_ids)s::bigint[], %(ordinals)s::bigint[], %(late)s::boolean[], %(incarnation)s, %(keep)s
)
