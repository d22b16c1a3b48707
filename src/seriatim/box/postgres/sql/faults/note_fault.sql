-- Purpose: write down that a handler failed at messages that it was given together, and count the attempt.
-- Caller: faults.py, under the lock of their group, after they were put back.
-- Locks: the entries and the group, which only a turn locks.
-- Index: entries_pkey, spool_pkey, known_groups_pkey.
SELECT attempts, now_us FROM {schema}.note_fault(
    %(queue_id)s, %(group_key)s, %(entry_ids)s::bigint[], %(kind)s, %(error_class)s, %(error)s, %(traceback)s,
    %(worker)s, %(delay)s::interval
)
