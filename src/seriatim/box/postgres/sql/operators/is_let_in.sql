-- Purpose: whether a role may use the schema at all. It may still after the last queue that it had a right to was
-- dropped.
-- Index: those of the catalog.
SELECT has_schema_privilege(oid, '{schema}'::regnamespace::oid, 'USAGE') AS is_let_in FROM pg_roles WHERE rolname = %(role)s
