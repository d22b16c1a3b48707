-- Purpose: let one process at a time make or change the schema of a box.
-- Caller: migration_locks.py, first in its transaction.
-- Locks: an advisory lock of the schema's name, until the transaction ends.
-- Index: none.
SELECT pg_advisory_xact_lock(hashtextextended('seriatim:' || %(schema)s, 0))
