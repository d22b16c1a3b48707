-- Purpose: let a role call the functions that check its rights themselves. No row if there is no such role.
-- Locks: the catalog's rows of the schema and of its functions, briefly.
-- Index: the catalog's own.
SELECT oid, {schema}.let_in(oid::regrole) AS let_in FROM pg_roles WHERE rolname = %(role)s
