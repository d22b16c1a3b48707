-- Purpose: messages that have a text as their id, as their group's key, or as the value of a property, newest first: a row for
-- each queue that has one or kept it, and for one that is unrouted or waits to be routed; with what `matched`. `given`: the text, as it
-- may stand in a property: as text, number or truth value.
-- `OFFSET 0`: each message is looked up by its index; a join might read all of a table.
-- Index: of a group entries_of_group, aside_of_group, history_of_group, once for each queue; then entries_of_message,
-- aside_of_message, history_of_message, unrouted_pkey, to_route_pkey, faults_of_entry. Ids that are remembered are found
-- by message_ids_pkey and spool_by_time. Properties of messages, and other ids, have no index, which every publisher would pay for: the
-- spool is read once, without bodies; or only the newest of it, by spool_pkey.
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
    FROM (
        SELECT arrival_id, position, message_id, received_at, context FROM {schema}.spool WHERE %(newest)s::bigint IS NULL
        UNION ALL
        (
            SELECT arrival_id, position, message_id, received_at, context FROM {schema}.spool
            WHERE %(newest)s::bigint IS NOT NULL ORDER BY arrival_id DESC, position DESC LIMIT %(newest)s::bigint
        )
    ) AS stored
    WHERE stored.received_at >= coalesce(%(since)s::timestamptz, clock_timestamp() - %(since_ago)s::interval, '-infinity')
        AND stored.received_at < coalesce(%(until)s::timestamptz, clock_timestamp() - %(until_ago)s::interval, 'infinity')
        AND (
            stored.message_id = %(text)s::text
            OR jsonb_path_exists(stored.context, '$.* ? (@ == $text || @ == $number || @ == $truth)', %(given)s::jsonb)
        )
    -- All are not read by the index: to read the table as it lies is several times as fast as row by row in that order.
    ORDER BY stored.arrival_id + 0 DESC, stored.position DESC LIMIT %(limit)s
), matching AS MATERIALIZED (
    SELECT arrival_id, position, min(matched) AS matched FROM (
        SELECT
            arrival_id, position,
            CASE WHEN is_id THEN '1message id' ELSE '3' || coalesce({schema}.property_with(context, %(text)s::text), '') END AS matched
        FROM of_message
        UNION ALL
        SELECT arrival_id, position, '1message id' FROM {schema}.spool
        WHERE message_id = %(text)s::text AND received_at = ANY (ARRAY(
            SELECT published_at FROM {schema}.message_ids WHERE message_id = %(text)s::text
        ))
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
    FROM (
        {rows_of(entries, matching)}
    ) AS entries
    UNION ALL
    SELECT
        arrival_id, position, queue_id, group_key, entry_id, disposition, reason, sequence, ordinal, priority, attempt, NULL,
        subscription_ids, aside_at
    FROM (
        {rows_of(aside, matching)}
    ) AS aside
    UNION ALL
    SELECT
        arrival_id, position, queue_id, group_key, entry_id, 'done', NULL, sequence, ordinal, NULL, attempt, NULL,
        subscription_ids, done_at
    FROM (
        {rows_of(history, matching)}
    ) AS history
    UNION ALL
    SELECT arrival_id, position, NULL, NULL, NULL, 'unrouted', problem, NULL, NULL, NULL, 0, NULL, '{}', unrouted_at
    FROM (
        {rows_of(unrouted, matching)}
    ) AS unrouted
    UNION ALL
    SELECT arrival_id, position, NULL, NULL, NULL, 'to_route', NULL, NULL, NULL, NULL, 0, NULL, '{}', NULL
    FROM (
        {rows_of(to_route, matching)}
    ) AS to_route
)
SELECT
    stored.message_id, stored.type, stored.location, stored.epoch, stored.number, queue.queue, place.group_key AS "group",
    place.status, place.reason, place.sequence, place.ordinal, place.priority, place.attempt,
    nullif(place.visible_at, 'infinity') AS visible_at,
    place.status IN ('arrived', 'held', 'queued') AND place.subscription_ids <> '{}' AND NOT EXISTS (
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
ORDER BY stored.stamp DESC, stored.serial DESC, queue.queue
LIMIT %(limit)s
