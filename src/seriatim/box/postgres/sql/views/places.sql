-- Purpose: where messages are, oldest first: a row for each queue that has one, and for one that nobody wanted;
-- with the error at which its handler failed last in that queue.
-- Caller: message_places.py.
-- Locks: none.
-- Of those that fit, only the page's are looked up with all that is told of them.
-- Index: entries_of_group, aside_of_group, history_of_group where a queue is given, and their indexes by message where
-- an id is; faults_of_message, entries_of_message, spool_pkey; otherwise all of it is read.
WITH page AS MATERIALIZED (
    SELECT place.arrival_id, place.position, place.queue, place.status, place.stamp
    FROM {schema}.message_places AS place
    LEFT JOIN LATERAL (
        SELECT one.error_class || ': ' || one.error AS error
        FROM {schema}.faults AS one JOIN {schema}.queues AS its USING (queue_id)
        WHERE one.message_id = place.message_id AND its.queue = place.queue
        ORDER BY one.fault_id DESC LIMIT 1
    ) AS failed ON TRUE
    WHERE (%(queue)s::text IS NULL OR queue = %(queue)s)
        AND (%(group)s::text IS NULL OR group_key = %(group)s)
        AND (%(status)s::text IS NULL OR status = %(status)s)
        AND (%(type)s::text IS NULL OR type = %(type)s)
        AND (%(message_id)s::text IS NULL OR message_id = %(message_id)s)
        AND (%(id_space)s::text IS NULL OR id_space = %(id_space)s)
        AND (%(since)s::timestamptz IS NULL OR received_at >= %(since)s::timestamptz)
        AND (%(since_ago)s::interval IS NULL OR received_at >= clock_timestamp() - %(since_ago)s::interval)
        AND (%(until)s::timestamptz IS NULL OR received_at < %(until)s::timestamptz)
        AND (%(until_ago)s::interval IS NULL OR received_at < clock_timestamp() - %(until_ago)s::interval)
        AND (%(names)s::text[] IS NULL OR EXISTS (
            SELECT FROM {schema}.spool AS stored
            WHERE stored.arrival_id = place.arrival_id AND stored.position = place.position
                AND ({schema}.has_properties(stored.context, %(names)s::text[], %(of_values)s::text[]) OR EXISTS (
                    SELECT FROM {schema}.edits AS edit
                    WHERE edit.arrival_id = stored.arrival_id AND edit.position = stored.position
                        AND edit.context IS NOT NULL
                        AND {schema}.has_properties(edit.context, %(names)s::text[], %(of_values)s::text[])
                ))
        ))
        AND (%(text)s::text IS NULL OR reason ILIKE %(text)s OR failed.error ILIKE %(text)s)
    ORDER BY stamp, position, queue
    LIMIT %(limit)s
)
SELECT
    place.message_id, place.type, location, epoch, number, place.queue, place.group_key AS "group", place.status, reason, sequence, ordinal, priority,
    attempt, nullif(visible_at, 'infinity') AS visible_at, waits, subscriptions, received_at, since, body_bytes,
    parts, id_space, failed.error, later.postponed, later.postponed_until
FROM page CROSS JOIN LATERAL (
    SELECT * FROM {schema}.message_places AS one
    WHERE one.arrival_id = page.arrival_id AND one.position = page.position
        AND one.queue IS NOT DISTINCT FROM page.queue AND one.status = page.status LIMIT 1
) AS place
LEFT JOIN LATERAL (
    SELECT one.error_class || ': ' || one.error AS error
    FROM {schema}.faults AS one JOIN {schema}.queues AS its USING (queue_id)
    WHERE one.message_id = place.message_id AND its.queue = place.queue
    ORDER BY one.fault_id DESC LIMIT 1
) AS failed ON TRUE
LEFT JOIN LATERAL (
    SELECT one.postponed, CASE
        WHEN one.postponed_until = one.visible_at AND one.visible_at > clock_timestamp() THEN one.visible_at
    END AS postponed_until
    FROM {schema}.entries AS one JOIN {schema}.queues AS its USING (queue_id)
    WHERE one.arrival_id = page.arrival_id AND one.position = page.position AND its.queue = page.queue
    LIMIT 1
) AS later ON TRUE
ORDER BY page.stamp, page.position, page.queue
