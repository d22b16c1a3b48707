-- Purpose: the last batch of a writer that is in the box; one merges at a time.
-- Caller: staging.py.
-- Locks: the writer's row.
-- Index: writers_pkey.
SELECT batch FROM {schema}.writers WHERE writer = %(writer)s FOR NO KEY UPDATE
