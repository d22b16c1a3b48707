-- Purpose: take a queue away.
-- Caller: drop.py, which has seen that nothing uses it, and holds off publishers.
-- Locks: the queue's row.
-- Index: queues_pkey.
DELETE FROM {schema}.queues WHERE queue_id = %(queue_id)s
