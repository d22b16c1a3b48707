-- Purpose: make a queue, or change one.
-- Caller: define.py, which has seen that it differs, and whether that fits.
-- Locks: the queue's row, which nobody else locks.
-- Index: queues_queue_key.
INSERT INTO {schema}.queues AS known (queue, definition, enabled) VALUES (%(name)s, %(definition)s::jsonb, %(enabled)s)
ON CONFLICT (queue) DO UPDATE SET definition = excluded.definition, enabled = excluded.enabled
