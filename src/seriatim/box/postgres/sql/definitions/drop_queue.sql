-- Purpose: drop a queue.
-- Locks: the queue's row.
-- Index: queues_pkey.
DELETE FROM {schema}.queues WHERE queue_id = %(queue_id)s
