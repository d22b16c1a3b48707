-- Purpose: let all roles that have rights call what migrations have made.
-- Locks: the catalog's rows of the schema and of its functions, briefly.
SELECT {schema}.let_in(role) FROM (SELECT DISTINCT role FROM {schema}.grants) AS known
