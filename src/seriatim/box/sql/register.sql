-- Purpose: ask to be called when a message comes to a queue.
-- Caller: waiting.py.
-- Locks: none beyond the row.
-- Index: waiters_pkey.
INSERT INTO {schema}.waiters (queue_id, channel) VALUES (%(queue_id)s, %(channel)s) RETURNING waiter_id
