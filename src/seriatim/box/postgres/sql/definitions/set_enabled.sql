-- Purpose: turn a queue on or off, whatever its declaration says. Answers with a row if that changed anything.
-- Locks: the queue's row.
-- Index: queues_queue_key.
UPDATE {schema}.queues SET enabled = %(enabled)s WHERE queue = %(name)s AND enabled <> %(enabled)s
RETURNING queue_id
