-- Purpose: a batch is complete: from now on it is the same whenever it is read.
-- Locks: the reader's row.
-- Index: readers_pkey.
UPDATE {schema}.readers SET batch = %(batch)s WHERE queue_id = %(queue_id)s AND reader = %(reader)s
