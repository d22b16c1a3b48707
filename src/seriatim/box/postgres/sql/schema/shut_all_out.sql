-- Purpose: nobody but the owner calls what migrations have made, unless he lets them in: PostgreSQL lets everybody.
-- Locks: the catalog's rows of the schema's functions, briefly.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA {schema} FROM PUBLIC
