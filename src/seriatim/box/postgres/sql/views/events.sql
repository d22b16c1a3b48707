-- Purpose: events of groups, newest first, a page of them; of one queue, group, pattern of keys, kinds or time. An event
-- that an operator caused is told with the actor and the reason.
-- Caller: events.py.
-- Locks: none.
-- Index: events_of_group where a queue and a group are given, else events_pkey; operator_log_pkey.
SELECT
    one.event_id, one.position, place.queue, one.group_key AS "group", one.incarnation, one.kind, one.first, one.last,
    one.count, one.at, one.recorded_at, one.operation_id, log.action, log.actor, log.reason
FROM {schema}.events AS one
LEFT JOIN {schema}.queues AS place USING (queue_id)
LEFT JOIN {schema}.operator_log AS log USING (operation_id)
WHERE (%(queue)s::text IS NULL OR one.queue_id = (
    SELECT known.queue_id FROM {schema}.queues AS known WHERE known.queue = %(queue)s
))
    AND (%(group_key)s::text IS NULL OR one.group_key = %(group_key)s)
    AND (%(pattern)s::text IS NULL OR one.group_key LIKE %(pattern)s)
    AND (%(kinds)s::text[] IS NULL OR one.kind = ANY (%(kinds)s::text[]))
    AND (%(since)s::timestamptz IS NULL OR one.at >= %(since)s::timestamptz)
    AND (%(since_ago)s::interval IS NULL OR one.at >= clock_timestamp() - %(since_ago)s::interval)
    AND (%(until)s::timestamptz IS NULL OR one.at < %(until)s::timestamptz)
    AND (%(until_ago)s::interval IS NULL OR one.at < clock_timestamp() - %(until_ago)s::interval)
    AND (%(before)s::bigint IS NULL OR one.event_id < %(before)s)
ORDER BY one.event_id DESC
LIMIT %(limit)s
