-- Purpose: let one process at a time make or change the schema of a box.
-- Locks: an advisory lock of the schema's name, until the transaction ends.
SELECT pg_advisory_xact_lock(hashtextextended('seriatim:' || %(schema)s, 0))
