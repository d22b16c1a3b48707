-- Purpose: give places for readers back.
-- Caller: slots.py, which has them.
-- Locks: gives up the advisory locks that take_slots.sql took.
-- Index: none.
SELECT pg_advisory_unlock(hashtextextended(
    'seriatim reader ' || %(queue_id)s::integer || ' ' || slot, '{schema}'::regnamespace::oid::bigint
)) AS was_mine
FROM unnest(%(slots)s::integer[]) AS slot
