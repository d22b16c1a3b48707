-- Purpose: the newest complete batch of a reader, and through which they are done; its row is locked.
-- Caller: feed.py, first in each transaction that moves batches, so that a reader that isn't the one any more does nothing.
-- Locks: the reader's row.
-- Index: readers_pkey.
SELECT batch, done FROM {schema}.readers
WHERE queue_id = %(queue_id)s AND reader = %(reader)s
FOR NO KEY UPDATE
