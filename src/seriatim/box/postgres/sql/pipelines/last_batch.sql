-- Purpose: the last batch of a writer that is in the box, if there is one.
-- Index: writers_pkey.
SELECT batch FROM {schema}.writers WHERE writer = %(writer)s
