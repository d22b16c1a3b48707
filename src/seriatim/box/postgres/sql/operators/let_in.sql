-- Purpose: let a role call what looks by itself whether it may. Answers with no row where there is no such role.
-- Locks: the catalog's rows of the schema and of its functions, briefly.
-- Index: the catalog's own.
SELECT oid, {schema}.let_in(oid::regrole) AS let_in FROM pg_roles WHERE rolname = %(role)s
