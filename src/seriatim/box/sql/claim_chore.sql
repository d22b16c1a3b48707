-- Purpose: let one process at a time do a chore.
-- Caller: chore.py.
-- Locks: an advisory lock of the schema and the chore, until the transaction ends; nobody waits for it.
-- Index: none.
SELECT pg_try_advisory_xact_lock(
    hashtextextended('seriatim chore ' || %(chore)s::text, '{schema}'::regnamespace::oid::bigint)
) AS mine
