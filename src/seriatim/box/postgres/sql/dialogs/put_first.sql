-- Purpose: bring what is queued for one dialog before what is queued for others of its group.
-- Caller: delivery.py, under the lock of its group, all of which is judged.
-- Locks: the group's entries, which only a turn locks.
-- Index: endpoints_pkey, entries_of_group, spool_pkey.
SELECT {schema}.put_first(%(handle)s::uuid)
