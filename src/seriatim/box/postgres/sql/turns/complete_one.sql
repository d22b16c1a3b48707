-- Purpose: as complete.sql, of one message in a queue that keeps nothing.
-- Caller: turns.py, under the lock of its group.
-- Locks: the entry, which only a turn locks; the spool's row that goes with it.
-- Index: entries_pkey, spool_pkey.
SELECT {schema}.complete_one(%(queue_id)s, %(entry_id)s)
