-- Purpose: the transaction, or subtransaction, that has just handed messages out.
-- Caller: turns.py, on a connection of an application's.
-- Locks: none.
-- Index: known_groups_pkey, entries_pkey.
SELECT {schema}.handed_by(%(queue_id)s, %(group_key)s, %(entry_ids)s::bigint[])::text
