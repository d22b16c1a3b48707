-- Purpose: let PostgreSQL tell all names with their schemas, until the transaction or the savepoint ends.
-- Caller: schema_comparison.py.
-- Locks: none.
-- Index: none.
SELECT set_config('search_path', 'pg_catalog', TRUE)
