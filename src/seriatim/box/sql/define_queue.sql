-- Purpose: make a queue, or change one. Answers with a row if that changed anything.
-- Caller: define.py, which has seen whether the change fits.
-- Locks: the queue's row, which nobody else locks.
-- Index: queues_queue_key.
INSERT INTO {schema}.queues AS known (queue, definition, enabled) VALUES (%(name)s, %(definition)s::jsonb, %(enabled)s)
ON CONFLICT (queue) DO UPDATE SET definition = excluded.definition, enabled = excluded.enabled
WHERE known.definition <> excluded.definition OR known.enabled <> excluded.enabled
RETURNING queue
