-- Purpose: complete a batch: from now on it doesn't change.
-- Locks: the reader's row.
-- Index: readers_pkey.
UPDATE {schema}.readers SET batch = %(batch)s WHERE queue_id = %(queue_id)s AND reader = %(reader)s
