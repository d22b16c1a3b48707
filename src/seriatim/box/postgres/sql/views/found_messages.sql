-- Purpose: messages that have a text as their id, as their group's key, or as the value of a property, newest first: a row for
-- each queue that has one or kept it, and for one that is unrouted or waits to be routed; with what `matched`. `given`: the text, as it
-- may stand in a property: as text, number or truth value.
-- Caller: find.py.
-- Locks: none.
-- Index: of a group entries_of_group, aside_of_group, history_of_group, once for each queue; then entries_of_message,
-- aside_of_message, history_of_message, unrouted_pkey, to_route_pkey, faults_of_entry. Ids and properties of messages have no
-- index, which every publisher would pay for: the spool is read once, without bodies.
WITH of_group AS MATERIALIZED (
    SELECT one.arrival_id, one.position
    FROM {schema}.queues AS place
    CROSS JOIN LATERAL (
        (
            SELECT entry.arrival_id, entry.position FROM {schema}.entries AS entry
            WHERE entry.queue_id = place.queue_id AND entry.group_key = ANY (%(group_keys)s::text[])
            ORDER BY entry.arrival_id DESC LIMIT %(limit)s
        ) UNION ALL (
            SELECT gone.arrival_id, gone.position FROM {schema}.aside AS gone
            WHERE gone.queue_id = place.queue_id AND gone.group_key = ANY (%(group_keys)s::text[])
            ORDER BY gone.arrival_id DESC LIMIT %(limit)s
        ) UNION ALL (
            SELECT done.arrival_id, done.position FROM {schema}.history AS done
            WHERE done.queue_id = place.queue_id AND done.group_key = ANY (%(group_keys)s::text[])
            ORDER BY done.arrival_id DESC LIMIT %(limit)s
        )
    ) AS one
), of_message AS MATERIALIZED (
    SELECT stored.arrival_id, stored.position, stored.message_id = %(text)s::text AS is_id, stored.context
    FROM {schema}.spool AS stored
    WHERE stored.received_at >= coalesce(%(since)s::timestamptz, clock_timestamp() - %(since_ago)s::interval, '-infinity')
        AND stored.received_at < coalesce(%(until)s::timestamptz, clock_timestamp() - %(until_ago)s::interval, 'infinity')
        AND (
            stored.message_id = %(text)s::text
            OR jsonb_path_exists(stored.context, '$.* ? (@ == $text || @ == $number || @ == $truth)', %(given)s::jsonb)
        )
    -- Not by the index: to read the table as it lies is several times as fast as row by row in that order.
    ORDER BY stored.arrival_id + 0 DESC, stored.position DESC LIMIT %(limit)s
), matching AS MATERIALIZED (
    SELECT arrival_id, position, min(matched) AS matched FROM (
        SELECT
            arrival_id, position,
            CASE WHEN is_id THEN '1message id' ELSE '3' || coalesce({schema}.property_with(context, %(text)s::text), '') END AS matched
        FROM of_message
        UNION ALL
        SELECT arrival_id, position, '2group' FROM of_group
        UNION ALL
        SELECT edit.arrival_id, edit.position, '3' || coalesce({schema}.property_with(edit.context, %(text)s::text), '')
        FROM {schema}.edits AS edit
        WHERE edit.arrival_id IS NOT NULL
            AND jsonb_path_exists(edit.context, '$.* ? (@ == $text || @ == $number || @ == $truth)', %(given)s::jsonb)
    ) AS one
    GROUP BY arrival_id, position
), place AS (
    SELECT
        arrival_id, position, queue_id, group_key, entry_id,
        CASE status WHEN 'placed' THEN 'held' ELSE status::text END AS status,
        CASE status WHEN 'placed' THEN 'place_open' END AS reason, sequence, ordinal, priority::integer,
        attempt, visible_at, subscription_ids, NULL::timestamptz AS since
    FROM {schema}.entries WHERE (arrival_id, position) IN (SELECT arrival_id, position FROM matching)
    UNION ALL
    SELECT
        arrival_id, position, queue_id, group_key, entry_id, disposition, reason, sequence, ordinal, priority, attempt, NULL,
        subscription_ids, aside_at
    FROM {schema}.aside WHERE (arrival_id, position) IN (SELECT arrival_id, position FROM matching)
    UNION ALL
    SELECT
        arrival_id, position, queue_id, group_key, entry_id, 'done', NULL, sequence, ordinal, NULL, attempt, NULL,
        subscription_ids, done_at
    FROM {schema}.history WHERE (arrival_id, position) IN (SELECT arrival_id, position FROM matching)
    UNION ALL
    SELECT arrival_id, position, NULL, NULL, NULL, 'unrouted', problem, NULL, NULL, NULL, 0, NULL, '{{}}', unrouted_at
    FROM {schema}.unrouted WHERE (arrival_id, position) IN (SELECT arrival_id, position FROM matching)
    UNION ALL
    SELECT arrival_id, position, NULL, NULL, NULL, 'to_route', NULL, NULL, NULL, NULL, 0, NULL, '{{}}', NULL
    FROM {schema}.to_route WHERE (arrival_id, position) IN (SELECT arrival_id, position FROM matching)
)
SELECT
    stored.message_id, stored.type, stored.location, stored.epoch, stored.number, queue.queue, place.group_key AS "group",
    place.status, place.reason, place.sequence, place.ordinal, place.priority, place.attempt,
    nullif(place.visible_at, 'infinity') AS visible_at,
    place.status IN ('arrived', 'held', 'queued') AND place.subscription_ids <> '{{}}' AND NOT EXISTS (
        SELECT FROM {schema}.known_subscriptions AS one
        WHERE one.subscription_id = ANY (place.subscription_ids) AND one.state = 'started'
    ) AS waits,
    ARRAY(
        SELECT one.subscription::text FROM {schema}.known_subscriptions AS one
        WHERE one.subscription_id = ANY (place.subscription_ids) ORDER BY 1
    ) AS subscriptions,
    stored.received_at, place.since, length(stored.body) AS body_bytes, coalesce(stored.parts, 0)::integer AS parts,
    stored.id_space, failed.error, substr(matching.matched, 2) AS matched
FROM matching
CROSS JOIN LATERAL (
    SELECT * FROM {schema}.stored_messages AS its
    WHERE its.arrival_id = matching.arrival_id AND its.position = matching.position LIMIT 1
) AS stored
JOIN place ON place.arrival_id = matching.arrival_id AND place.position = matching.position
LEFT JOIN {schema}.queues AS queue USING (queue_id)
LEFT JOIN LATERAL (
    SELECT one.error_class || ': ' || one.error AS error FROM {schema}.faults AS one
    WHERE one.entry_id = place.entry_id ORDER BY one.fault_id DESC LIMIT 1
) AS failed ON TRUE
WHERE stored.received_at >= coalesce(%(since)s::timestamptz, clock_timestamp() - %(since_ago)s::interval, '-infinity')
    AND stored.received_at < coalesce(%(until)s::timestamptz, clock_timestamp() - %(until_ago)s::interval, 'infinity')
ORDER BY stored.stamp DESC, stored.position DESC, queue.queue
LIMIT %(limit)s
