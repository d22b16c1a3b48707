-- Purpose: remember which migrations were applied, and what they were; also of those that an earlier build has applied.
-- Caller: migrate.py, in the transaction that applied them, after all of them.
-- Locks: none beyond the rows.
-- Index: migrations_pkey.
INSERT INTO {schema}.migrations AS known (number, name, checksum)
SELECT number, name, checksum
FROM unnest(%(numbers)s::integer[], %(names)s::text[], %(checksums)s::text[]) AS done (number, name, checksum)
ON CONFLICT (number) DO UPDATE SET checksum = excluded.checksum WHERE known.checksum IS NULL
