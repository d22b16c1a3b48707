-- Purpose: the state of one message, a row for each queue that has it or has kept it, or for none.
-- Index: entries_of_message, aside_of_message, history_of_message, unrouted_pkey, to_route_pkey, replies_pkey, spool_pkey.
SELECT
    place.queue, place.group_key AS "group", place.status, place.why, place.until, place.attempt, place.since,
    -- As a reply to a request it is in no queue.
    stored.destinations - (
        SELECT count(*)::integer FROM {schema}.replies AS kept
        WHERE kept.arrival_id = %(arrival_id)s AND kept.position = %(position)s AND kept.entry_id = 0
    ) AS destinations
FROM (
    SELECT one.queue, one.group_key, 'waiting' AS status, one.why, one.until, one.attempt, NULL::timestamptz AS since
    FROM {schema}.not_done AS one WHERE one.arrival_id = %(arrival_id)s AND one.position = %(position)s
    UNION ALL
    SELECT known.queue, nullif(one.group_key, ''), one.disposition, one.reason, NULL, one.attempt, one.aside_at
    FROM {schema}.aside AS one JOIN {schema}.queues AS known USING (queue_id)
    WHERE one.arrival_id = %(arrival_id)s AND one.position = %(position)s
    UNION ALL
    SELECT known.queue, nullif(one.group_key, ''), 'done', NULL, NULL, one.attempt, one.done_at
    FROM {schema}.history AS one JOIN {schema}.queues AS known USING (queue_id)
    WHERE one.arrival_id = %(arrival_id)s AND one.position = %(position)s
    UNION ALL
    SELECT NULL, NULL, 'unrouted', one.problem, NULL, 0, one.unrouted_at
    FROM {schema}.unrouted AS one WHERE one.arrival_id = %(arrival_id)s AND one.position = %(position)s
    UNION ALL
    SELECT NULL, NULL, 'to_route', NULL, NULL, 0, NULL
    FROM {schema}.to_route AS one WHERE one.arrival_id = %(arrival_id)s AND one.position = %(position)s
) AS place
JOIN {schema}.spool AS stored ON stored.arrival_id = %(arrival_id)s AND stored.position = %(position)s
ORDER BY place.queue
