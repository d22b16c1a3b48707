-- Purpose: the events behind a position, in the order of positions, for exporters.
-- Caller: events.py, after `place_events`.
-- Locks: none.
-- Index: events_by_position; operator_log_pkey.
SELECT
    one.event_id, one.position, place.queue, one.group_key AS "group", one.incarnation, one.kind, one.first, one.last,
    one.count, one.at, one.recorded_at, one.operation_id, log.action, log.actor, log.reason
FROM {schema}.events AS one
LEFT JOIN {schema}.queues AS place USING (queue_id)
LEFT JOIN {schema}.operator_log AS log USING (operation_id)
WHERE one.position > %(after)s
    AND (%(queue)s::text IS NULL OR one.queue_id = (
        SELECT known.queue_id FROM {schema}.queues AS known WHERE known.queue = %(queue)s
    ))
    AND (%(kinds)s::text[] IS NULL OR one.kind = ANY (%(kinds)s::text[]))
ORDER BY one.position
LIMIT %(limit)s
