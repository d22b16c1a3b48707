-- Purpose: nobody but the owner calls what migrations have made, unless he lets them in: PostgreSQL lets everybody.
-- Caller: migrate.py, once after all of them, since it writes the row of each function.
-- Locks: the catalog's rows of the schema's functions, briefly.
-- Index: none.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA {schema} FROM PUBLIC
