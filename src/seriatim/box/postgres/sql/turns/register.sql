-- Purpose: ask to be called when a message comes to a queue.
-- Caller: waiting.py.
-- Locks: none beyond the row.
-- Index: waiters_pkey.
SELECT {schema}.register(%(queue_id)s) AS waiter_id
