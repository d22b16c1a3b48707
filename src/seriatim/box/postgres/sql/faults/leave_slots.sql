-- Purpose: give places for readers back.
-- Caller: reader_places.py, which has them.
-- Locks: gives up the advisory locks that take_slots.sql took.
-- Index: none.
SELECT was_mine FROM {schema}.leave_slots(%(queue_id)s, %(slots)s::integer[]) AS was_mine
