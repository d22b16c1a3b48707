-- Purpose: the last batch of a writer that is in the box, and the number of the run that wrote it; one merges at a time.
-- Locks: the writer's row.
-- Index: writers_pkey.
SELECT batch, fence FROM {schema}.writers WHERE writer = %(writer)s FOR NO KEY UPDATE
