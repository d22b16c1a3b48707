-- Purpose: what a pipeline has worked on, through a batch, is done; what was before that batch goes.
-- Caller: feed.py.
-- Locks: the reader's row, the entries, and the spool's rows that go with them.
-- Index: readers_pkey, entries_in_hand, spool_pkey.
SELECT {schema}.complete_batches(%(queue_id)s, %(reader)s, %(through)s, %(keep)s) AS known
