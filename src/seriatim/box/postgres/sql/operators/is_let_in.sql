-- Purpose: whether a role may use the schema at all, or has an id space: it may still after the last queue that it had a right to was
-- dropped.
-- Index: those of the catalog.
SELECT has_schema_privilege(oid, '{schema}'::regnamespace::oid, 'USAGE')
    OR EXISTS (SELECT FROM {schema}.id_spaces WHERE role = oid::regrole) AS is_let_in
FROM pg_roles WHERE rolname = %(role)s
