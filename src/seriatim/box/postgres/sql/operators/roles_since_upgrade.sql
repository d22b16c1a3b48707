-- Purpose: the roles that had rights before there were id spaces, and publish in the owner's still.
-- Caller: grant.py.
-- Locks: none.
-- Index: none; the table is small.
SELECT pg_get_userbyid(role::oid)::text AS role FROM {schema}.id_spaces
WHERE since_upgrade AND EXISTS (SELECT FROM {schema}.grants AS given WHERE given.role = id_spaces.role AND given.may = 'publish')
ORDER BY 1
