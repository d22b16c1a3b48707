-- Purpose: take away what was put back of dialogs that have ended meanwhile.
-- Caller: dialogs.py, under the lock of their group.
-- Locks: the entries, which only a turn locks.
-- Index: endpoints_pkey, entries_of_group, spool_pkey.
SELECT {schema}.drop_ended(%(handles)s::uuid[])
