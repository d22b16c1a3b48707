-- Purpose: give another name to a schema, for a moment: in a savepoint that is rolled back.
-- Caller: schema_comparison.py.
-- Locks: the catalog's row of the schema.
-- Index: the catalog's own.
ALTER SCHEMA {schema} RENAME TO seriatim_set_aside
