-- Purpose: a batch is complete: from now on it is the same whenever it is read.
-- Caller: feed.py, which has the reader's row.
-- Locks: the reader's row.
-- Index: readers_pkey.
UPDATE {schema}.readers SET batch = %(batch)s WHERE queue_id = %(queue_id)s AND reader = %(reader)s
