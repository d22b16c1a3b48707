-- Purpose: what was set aside and is no dead letter, and what is unrouted, the oldest first, at most so many; of one
-- queue, group, type, age or id.
-- Caller: set_aside.py.
-- Locks: none.
-- Index: aside_of_group where a queue is given, else all of it is read; spool_pkey.
SELECT
    stored.message_id, stored.type, place.queue, one.group_key AS "group", one.status, one.sequence, one.reason,
    one.since, stored.received_at, one.entry_id, one.arrival_id, one.position
FROM (
    SELECT
        queue_id, group_key, disposition AS status, sequence, reason, aside_at AS since, entry_id, arrival_id, position
    FROM {schema}.aside WHERE disposition <> 'dead'
    UNION ALL
    SELECT NULL, NULL, 'unrouted', NULL, problem, unrouted_at, NULL, arrival_id, position FROM {schema}.unrouted
) AS one
CROSS JOIN LATERAL (
    SELECT * FROM {schema}.spool AS its WHERE its.arrival_id = one.arrival_id AND its.position = one.position LIMIT 1
) AS stored
LEFT JOIN {schema}.queues AS place USING (queue_id)
WHERE one.status = ANY (%(statuses)s::text[])
    AND (%(queue_id)s::integer IS NULL OR one.queue_id = %(queue_id)s)
    AND (%(group)s::text IS NULL OR one.group_key = %(group)s)
    AND (%(type)s::text IS NULL OR stored.type = %(type)s)
    AND (%(message_ids)s::text[] IS NULL OR stored.message_id = ANY (%(message_ids)s))
    AND (%(older_than)s::interval IS NULL OR one.since < clock_timestamp() - %(older_than)s::interval)
ORDER BY one.since, one.arrival_id, one.position, one.entry_id
LIMIT %(limit)s
