-- Purpose: remember that a migration was applied.
-- Caller: migrate.py, in the transaction that applied it.
-- Locks: none beyond the row.
-- Index: migrations_pkey.
INSERT INTO {schema}.migrations (number, name) VALUES (%(number)s, %(name)s)
