-- Purpose: the known places of messages, or of the messages of a group, newest first: a row for each queue that has one
-- or kept it, for each that is unrouted or waits to be routed, and for one in the spool without a queue. `OFFSET 0`:
-- each message is looked up by its index; a join might read all of a table.
-- Index: entries_of_group, aside_of_group and history_of_group where a group is given. Of a message message_ids_pkey
-- and spool_by_time; where its id is forgotten the spool is read, once a look; then entries_of_message,
-- aside_of_message, history_of_message, unrouted_pkey, to_route_pkey.
WITH remembered AS MATERIALIZED (
    SELECT arrival_id, position, message_id FROM {schema}.spool
    WHERE %(queue_id)s::integer IS NULL
        AND message_id = ANY (%(message_ids)s::text[]) AND (%(id_space)s::text IS NULL OR id_space = %(id_space)s)
        AND received_at = ANY (ARRAY(
            SELECT published_at FROM {schema}.message_ids WHERE message_id = ANY (%(message_ids)s::text[])
        ))
), message AS MATERIALIZED (
    SELECT arrival_id, position FROM remembered
    UNION
    SELECT arrival_id, position FROM {schema}.spool
    WHERE %(queue_id)s::integer IS NULL
        AND cardinality(%(message_ids)s::text[]) > (SELECT count(DISTINCT message_id) FROM remembered)
        AND message_id = ANY (%(message_ids)s::text[]) AND (%(id_space)s::text IS NULL OR id_space = %(id_space)s)
), place AS (
    SELECT
        arrival_id, position, queue_id, group_key, entry_id,
        CASE status WHEN 'placed' THEN 'held' ELSE status::text END AS status,
        CASE status WHEN 'placed' THEN 'place_open' END AS reason, sequence, ordinal, late, attempt,
        visible_at, subscription_ids, NULL::timestamptz AS since, NULL AS done_by, postponed,
        CASE WHEN postponed_until = visible_at AND visible_at > clock_timestamp() THEN visible_at END AS postponed_until
    FROM (
        {rows_of(entries, message)}
        WHERE %(queue_id)s::integer IS NULL
        UNION ALL
        SELECT * FROM {schema}.entries AS one
        WHERE one.queue_id = %(queue_id)s::integer AND one.group_key = %(group_key)s
    ) AS entries
    UNION ALL
    SELECT
        arrival_id, position, queue_id, group_key, entry_id, disposition, reason, sequence, ordinal, FALSE, attempt,
        NULL, subscription_ids, aside_at, NULL, NULL, NULL
    FROM (
        {rows_of(aside, message)}
        WHERE %(queue_id)s::integer IS NULL
        UNION ALL
        SELECT * FROM {schema}.aside AS one
        WHERE one.queue_id = %(queue_id)s::integer AND one.group_key = %(group_key)s
    ) AS aside
    UNION ALL
    SELECT
        arrival_id, position, queue_id, group_key, entry_id, 'done', NULL, sequence, ordinal, late, attempt,
        NULL, subscription_ids, done_at, done_by, NULL, NULL
    FROM (
        {rows_of(history, message)}
        WHERE %(queue_id)s::integer IS NULL
        UNION ALL
        SELECT * FROM {schema}.history AS one
        WHERE one.queue_id = %(queue_id)s::integer AND one.group_key = %(group_key)s
    ) AS history
    UNION ALL
    SELECT arrival_id, position, NULL, NULL, NULL, 'unrouted', problem, NULL, NULL, FALSE, 0, NULL, '{}', unrouted_at, NULL, NULL, NULL
    FROM {schema}.unrouted WHERE (arrival_id, position) IN (SELECT * FROM message)
    UNION ALL
    SELECT arrival_id, position, NULL, NULL, NULL, 'to_route', NULL, NULL, NULL, FALSE, 0, NULL, '{}', NULL, NULL, NULL, NULL
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
    (stored.context ->> 'origin_ordinal')::bigint AS origin_ordinal,
    (
        SELECT nullif(concat_ws(
            ' ', 'service ' || said.far_service, 'of box ' || said.far_box, 'in conversation ' || said.conversation_id,
            'as its number ' || said.sequence
        ), '') FROM jsonb_to_record(stored.context -> 'dialog') AS said (far_service text, far_box text, conversation_id text, sequence text)
    ) AS dialog
FROM (
    SELECT arrival_id, position FROM message UNION SELECT arrival_id, position FROM last
) AS known
CROSS JOIN LATERAL (
    SELECT * FROM {schema}.stored_messages AS its WHERE its.arrival_id = known.arrival_id AND its.position = known.position LIMIT 1
) AS stored
LEFT JOIN last ON last.arrival_id = known.arrival_id AND last.position = known.position
LEFT JOIN {schema}.queues AS queue USING (queue_id)
ORDER BY stored.stamp, stored.serial, queue.queue
