-- Purpose: the newest skip of each of these numbers of a group; with the actor and the reason, where an operator skipped them.
-- Index: events_of_group; operator_log_pkey.
SELECT
    wanted.number, skip.event_id, skip.position, %(queue)s::text AS queue, skip.group_key AS "group", skip.incarnation,
    skip.kind, skip.first, skip.last, skip.count, skip.at, skip.recorded_at, skip.operation_id, log.action, log.actor,
    log.reason
FROM unnest(%(numbers)s::bigint[]) AS wanted (number)
CROSS JOIN LATERAL (
    SELECT * FROM {schema}.events AS one
    WHERE one.queue_id = %(queue_id)s AND one.group_key = %(group_key)s AND one.kind = 'hole_skipped'
        AND wanted.number BETWEEN one.first AND one.last
    ORDER BY one.event_id DESC LIMIT 1
) AS skip
LEFT JOIN {schema}.operator_log AS log USING (operation_id)
