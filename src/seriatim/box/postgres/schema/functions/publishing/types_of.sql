-- Return the types that subscriptions of a role match now: those granted to it, and to roles that it is a member of.
-- is: sql, stable
CREATE OR REPLACE FUNCTION {schema}.types_of(subscriber regrole) RETURNS text[]
RETURN ARRAY(
    SELECT DISTINCT known.type FROM {schema}.granted_types AS known
    WHERE known.role = subscriber OR pg_has_role(subscriber::oid, known.role::oid, 'USAGE') ORDER BY known.type
);
