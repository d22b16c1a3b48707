-- Purpose: let all roles that have rights call what migrations have made.
-- Caller: migrate.py, after them.
-- Locks: the catalog's rows of the schema and of its functions, briefly.
-- Index: none.
SELECT {schema}.let_in(role) FROM (SELECT DISTINCT role FROM {schema}.grants) AS known
