-- Purpose: the migrations that were applied, if the function that returns them is gone.
-- Index: migrations_pkey.
SELECT number, checksum FROM {schema}.migrations ORDER BY number
