-- Purpose: put into a reader's next batch the next messages of a queue without order, of lowest rank first.
-- Caller: feed.py.
-- Locks: the entries; those that others have are passed over.
-- Index: entries_arrived.
SELECT {schema}.put_in_batch_unordered(%(queue_id)s, %(batch)s, %(at_most)s) AS taken
