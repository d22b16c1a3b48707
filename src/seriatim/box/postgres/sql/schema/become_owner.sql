-- Purpose: work as the owner of the schema until the transaction ends, so that the owner owns all that is made.
-- Index: the catalog's own.
SELECT set_config('role', pg_get_userbyid(nspowner), TRUE) FROM pg_namespace WHERE nspname = %(schema)s
