-- Purpose: the days that have a part of the history of their own.
-- Caller: purge.py.
-- Locks: none.
-- Index: the catalog's own.
SELECT {schema}.history_days() AS day
