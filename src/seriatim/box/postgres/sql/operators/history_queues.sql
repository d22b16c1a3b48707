-- Purpose: the queues that have a history.
-- Index: history_pkey, one look a queue.
WITH RECURSIVE known AS (
    (SELECT queue_id FROM {schema}.history ORDER BY queue_id LIMIT 1)
    UNION ALL
    SELECT (
        SELECT done.queue_id FROM {schema}.history AS done
        WHERE done.queue_id > known.queue_id ORDER BY done.queue_id LIMIT 1
    ) FROM known WHERE known.queue_id IS NOT NULL
)
SELECT queue_id FROM known WHERE queue_id IS NOT NULL
