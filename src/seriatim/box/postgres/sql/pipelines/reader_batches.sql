-- Purpose: the newest complete batch of a reader, and through which they are done; its row is locked.
-- Locks: the reader's row.
-- Index: readers_pkey.
SELECT batch, done FROM {schema}.readers
WHERE queue_id = %(queue_id)s AND reader = %(reader)s
FOR NO KEY UPDATE
