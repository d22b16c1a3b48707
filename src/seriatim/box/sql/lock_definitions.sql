-- Purpose: let one transaction at a time change what is defined.
-- Caller: define.py, first.
-- Locks: an advisory lock of the schema, until the transaction ends. Nobody but those who define waits for it.
-- Index: none.
SELECT pg_advisory_xact_lock(hashtextextended('seriatim definitions', '{schema}'::regnamespace::oid::bigint))
