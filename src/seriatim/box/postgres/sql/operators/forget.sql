-- Purpose: begin a group anew, in its next incarnation.
-- Caller: forget.py, under the group's lock. Answers with the incarnation; NULL where the group isn't known.
-- Locks: the group's row, which only a turn locks.
-- Index: known_groups_pkey.
SELECT {schema}.forget(%(queue_id)s, %(group_key)s, %(fresh)s::bigint[]) AS incarnation
