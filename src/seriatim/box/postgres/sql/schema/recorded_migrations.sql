-- Purpose: the migrations that were applied, where the function that tells them is gone.
-- Index: migrations_pkey.
SELECT number, checksum FROM {schema}.migrations ORDER BY number
