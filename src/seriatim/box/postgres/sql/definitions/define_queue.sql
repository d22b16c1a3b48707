-- Purpose: make a queue, or change one. `activated` NULL: it stays as it is.
-- Locks: the queue's row, which nobody else locks.
-- Index: queues_queue_key.
INSERT INTO {schema}.queues AS known (queue, definition, enabled, activated)
VALUES (%(name)s, %(definition)s::jsonb, %(enabled)s, coalesce(%(activated)s, TRUE))
ON CONFLICT (queue) DO UPDATE SET
    definition = excluded.definition,
    enabled = excluded.enabled,
    activated = coalesce(%(activated)s, known.activated)
