-- Purpose: as complete.sql, of a queue that keeps nothing.
-- Caller: turns.py, under the lock of its group.
-- Locks: the entries, which only a turn locks; the spool's rows that go with them.
-- Index: entries_pkey, spool_pkey.
SELECT {schema}.complete(%(queue_id)s, %(entry_ids)s::bigint[], NULL, NULL, 0, 'nothing')
