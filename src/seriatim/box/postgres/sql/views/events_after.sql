-- Purpose: the events behind a position, in the order of positions, for exporters.
-- Index: events_by_position; operator_log_pkey.
{shown_events()}
WHERE one.position > %(after)s
    AND (%(queue)s::text IS NULL OR one.queue_id = (
        SELECT known.queue_id FROM {schema}.queues AS known WHERE known.queue = %(queue)s
    ))
    AND (%(kinds)s::text[] IS NULL OR one.kind = ANY (%(kinds)s::text[]))
ORDER BY one.position
LIMIT %(limit)s
