-- Purpose: give a role its id space: the named one, or if it has none yet that of its name.
-- Locks: the role's row.
-- Index: id_spaces_pkey.
INSERT INTO {schema}.id_spaces AS known (role, id_space)
SELECT oid::regrole, coalesce(%(id_space)s, rolname) FROM pg_roles WHERE rolname = %(role)s
ON CONFLICT (role) DO UPDATE SET id_space = excluded.id_space WHERE %(id_space)s::text IS NOT NULL
