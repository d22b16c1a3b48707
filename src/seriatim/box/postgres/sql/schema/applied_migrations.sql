-- Purpose: the migrations that were applied, with the checksum of each.
-- Caller: migrate.py, at every open.
-- Locks: none.
-- Index: migrations_pkey.
SELECT number, checksum FROM {schema}.applied_migrations()
