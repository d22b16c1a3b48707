-- Purpose: keep all roles but the owner from calling the functions that migrations have made: by default PostgreSQL
-- lets all call them.
-- Locks: the catalog's rows of the schema's functions, briefly.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA {schema} FROM PUBLIC
