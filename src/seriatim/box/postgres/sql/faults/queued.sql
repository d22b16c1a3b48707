-- Purpose: the entries that are queued in a group, by ordinal, at most so many.
-- Caller: faults.py, under the lock of the group, after a turn has judged it.
-- Locks: none.
-- Index: entries_of_group.
SELECT entry_ids, codes FROM {schema}.turn_entries(%(queue_id)s, ARRAY[%(group_key)s]::text[], %(at_most)s, 0, 0)
