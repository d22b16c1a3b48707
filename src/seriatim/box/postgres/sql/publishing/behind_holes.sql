-- Purpose: of groups, the entry that waits behind a hole which ends at these numbers; NULL where there is none.
-- Caller: notices.py, where somebody asks for failures.
-- Locks: none.
-- Index: entries_of_group: all of each group.
SELECT {schema}.behind_holes(%(queue_id)s, %(group_keys)s::text[], %(lasts)s::bigint[])
