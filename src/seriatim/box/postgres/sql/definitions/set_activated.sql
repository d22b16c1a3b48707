-- Purpose: turn the activation of a queue on or off. Answers with a row if that changed anything.
-- Locks: the queue's row.
-- Index: queues_queue_key.
UPDATE {schema}.queues SET activated = %(activated)s WHERE queue = %(name)s AND activated <> %(activated)s
RETURNING queue_id
