-- Purpose: the newest events of a group, newest first.
-- Caller: events.py.
-- Locks: none.
-- Index: events_of_group; operator_log_pkey.
SELECT
    one.event_id, one.position, place.queue, one.group_key AS "group", one.incarnation, one.kind, one.first, one.last,
    one.count, one.at, one.recorded_at, one.operation_id, log.action, log.actor, log.reason
FROM {schema}.events AS one
LEFT JOIN {schema}.queues AS place USING (queue_id)
LEFT JOIN {schema}.operator_log AS log USING (operation_id)
WHERE one.queue_id = %(queue_id)s AND one.group_key = %(group_key)s
ORDER BY one.event_id DESC
LIMIT %(limit)s
