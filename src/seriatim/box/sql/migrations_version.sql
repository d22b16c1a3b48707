-- Purpose: the number of the newest migration that was applied, of a box of before there were roles.
-- Caller: migrate.py, at every open of such a box.
-- Locks: none.
-- Index: migrations_pkey.
SELECT max(number) AS version FROM {schema}.migrations
