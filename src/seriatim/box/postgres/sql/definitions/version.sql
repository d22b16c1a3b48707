-- Purpose: the version of what is defined; it changes with every definition.
-- Caller: known.py, to see whether what it knows is still so.
-- Locks: none.
-- Index: changes_pkey, its last entry.
SELECT {schema}.version() AS version
