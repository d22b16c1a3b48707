-- Purpose: let a role call what its rights, tokens and link need, and nothing else. No row if there is no such role.
-- Locks: the catalog's rows of the schema and of its functions, briefly.
-- Index: the catalog's own.
SELECT {schema}.set_access(oid::regrole) FROM pg_roles WHERE rolname = %(role)s
