-- Purpose: what is known of messages, or of the messages of a group, newest first: a row for each queue that has one or
-- kept it, for each that nobody wanted or that waits to be routed, and for one that is there and in no queue any more.
-- Caller: trace.py.
-- Locks: none.
-- Index: entries_of_group, aside_of_group and history_of_group where a group is given. Of a message the spool is read, once
-- a look; then entries_of_message, aside_of_message, history_of_message, unrouted_pkey, to_route_pkey.
WITH message AS MATERIALIZED (
    SELECT arrival_id, position FROM {schema}.spool
    WHERE cardinality(%(message_ids)s::text[]) > 0 AND message_id = ANY (%(message_ids)s::text[])
        AND (%(id_space)s::text IS NULL OR id_space = %(id_space)s)
), place AS (
    SELECT
        arrival_id, position, queue_id, group_key, entry_id,
        CASE status WHEN 'placed' THEN 'held' ELSE status::text END AS status,
        CASE status WHEN 'placed' THEN 'place_open' END AS reason, sequence, ordinal, late, attempt,
        visible_at, subscription_ids, NULL::timestamptz AS since, NULL AS done_by, postponed,
        CASE WHEN postponed_until = visible_at AND visible_at > clock_timestamp() THEN visible_at END AS postponed_until
    FROM {schema}.entries
    WHERE CASE WHEN %(queue_id)s::integer IS NULL THEN (arrival_id, position) IN (SELECT * FROM message) ELSE TRUE END
        AND (%(queue_id)s::integer IS NULL OR (queue_id = %(queue_id)s AND group_key = %(group_key)s))
    UNION ALL
    SELECT
        arrival_id, position, queue_id, group_key, entry_id, disposition, reason, sequence, ordinal, FALSE, attempt,
        NULL, subscription_ids, aside_at, NULL, NULL, NULL
    FROM {schema}.aside
    WHERE CASE WHEN %(queue_id)s::integer IS NULL THEN (arrival_id, position) IN (SELECT * FROM message) ELSE TRUE END
        AND (%(queue_id)s::integer IS NULL OR (queue_id = %(queue_id)s AND group_key = %(group_key)s))
    UNION ALL
    SELECT
        arrival_id, position, queue_id, group_key, entry_id, 'done', NULL, sequence, ordinal, late, attempt,
        NULL, subscription_ids, done_at, done_by, NULL, NULL
    FROM {schema}.history
    WHERE CASE WHEN %(queue_id)s::integer IS NULL THEN (arrival_id, position) IN (SELECT * FROM message) ELSE TRUE END
        AND (%(queue_id)s::integer IS NULL OR (queue_id = %(queue_id)s AND group_key = %(group_key)s))
    UNION ALL
    SELECT arrival_id, position, NULL, NULL, NULL, 'unrouted', problem, NULL, NULL, FALSE, 0, NULL, '{{}}', unrouted_at, NULL, NULL, NULL
    FROM {schema}.unrouted WHERE (arrival_id, position) IN (SELECT * FROM message)
    UNION ALL
    SELECT arrival_id, position, NULL, NULL, NULL, 'to_route', NULL, NULL, NULL, FALSE, 0, NULL, '{{}}', NULL, NULL, NULL, NULL
    FROM {schema}.to_route WHERE (arrival_id, position) IN (SELECT * FROM message)
), last AS (
    SELECT * FROM place ORDER BY arrival_id DESC, position DESC, queue_id LIMIT %(limit)s
)
SELECT
    stored.message_id, stored.type, stored.location, stored.epoch, stored.number, stored.received_at, stored.destinations,
    queue.queue,
    last.group_key AS "group",
    last.entry_id,
    last.status,
    last.reason,
    last.sequence,
    last.ordinal,
    last.late,
    last.attempt,
    nullif(last.visible_at, 'infinity') AS visible_at,
    ARRAY(
        SELECT one.subscription::text FROM {schema}.known_subscriptions AS one
        WHERE one.subscription_id = ANY (last.subscription_ids) ORDER BY 1
    ) AS subscriptions,
    last.since,
    stored.id_space,
    last.done_by,
    last.postponed,
    last.postponed_until,
    stored.context ->> 'parent_id' AS parent_id,
    stored.context ->> 'origin_queue' AS origin_queue,
    stored.context ->> 'origin_group' AS origin_group,
    (stored.context ->> 'origin_ordinal')::bigint AS origin_ordinal
FROM (
    SELECT arrival_id, position FROM message UNION SELECT arrival_id, position FROM last
) AS known
CROSS JOIN LATERAL (
    SELECT * FROM {schema}.stored_messages AS its WHERE its.arrival_id = known.arrival_id AND its.position = known.position LIMIT 1
) AS stored
LEFT JOIN last ON last.arrival_id = known.arrival_id AND last.position = known.position
LEFT JOIN {schema}.queues AS queue USING (queue_id)
ORDER BY stored.stamp, stored.position, queue.queue
