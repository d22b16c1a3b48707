-- Purpose: let all roles with rights call the functions that migrations have made.
-- Locks: the catalog's rows of the schema and of its functions, briefly.
SELECT {schema}.let_in(role) FROM (SELECT role FROM {schema}.grants UNION SELECT server FROM {schema}.tokens) AS known (role)
