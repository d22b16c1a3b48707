-- Purpose: the columns of `one`, a row of events, with the actor and the reason of an event that an operator caused.
SELECT
    one.event_id, one.position, place.queue, one.group_key AS "group", one.incarnation, one.kind, one.first, one.last,
    one.count, one.at, one.recorded_at, one.operation_id, log.action, log.actor, log.reason
FROM {schema}.events AS one
LEFT JOIN {schema}.queues AS place USING (queue_id)
LEFT JOIN {schema}.operator_log AS log USING (operation_id)
