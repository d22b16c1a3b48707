-- Purpose: the number of the newest migration that was applied.
-- Caller: migrate.py, at every open.
-- Locks: none.
-- Index: migrations_pkey.
SELECT {schema}.schema_version() AS version
