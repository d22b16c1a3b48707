-- Purpose: keep a role without rights from calling any function.
-- Locks: the catalog's rows of the schema and of its functions, briefly.
-- Index: grants_each_once.
SELECT {schema}.shut_out(oid::regrole) FROM pg_roles
WHERE rolname = %(role)s AND NOT EXISTS (SELECT FROM {schema}.grants WHERE role = oid::regrole)
