-- Purpose: which other role has the id space that a role without one would get by its name; no row where none has.
-- Index: none; the table is small.
SELECT pg_get_userbyid(known.role::oid)::text AS role
FROM {schema}.id_spaces AS known, pg_roles AS given
WHERE given.rolname = %(role)s AND known.id_space = given.rolname::text AND known.role::oid <> given.oid
    AND NOT EXISTS (SELECT FROM {schema}.id_spaces AS own WHERE own.role::oid = given.oid)
LIMIT 1
