-- Purpose: set a message aside that was for an instance which has ended.
-- Caller: instances.py, under the lock of its group.
-- Locks: the entry, which only a turn locks.
-- Index: entries_of_group, spool_pkey.
SELECT {schema}.set_stray_aside(
    %(queue_id)s, %(group_key)s, %(message_id)s, %(ordinal)s, %(why)s, %(entry_id)s
)
