-- Purpose: where messages are, in the order in which they came in: of the next `most` messages after one, or of one alone, those that
-- fit; with the last message that was read, and how many were. Where none fits, there is one row without a message.
-- Caller: message_places.py.
-- Locks: none.
-- Index: spool_pkey, or by the same columns entries_of_message, aside_of_message, history_of_message, unrouted_pkey, whichever has the
-- messages of a status; for each message that is read likewise, and faults_of_message.
WITH candidate AS MATERIALIZED (
    (
        SELECT one.arrival_id, one.position FROM {schema}.spool AS one
        WHERE %(among)s = 'spool' AND (one.arrival_id, one.position) > (%(after_arrival)s::bigint, %(after_position)s::bigint)
        ORDER BY one.arrival_id, one.position LIMIT %(most)s
    ) UNION (
        SELECT one.arrival_id, one.position FROM {schema}.entries AS one
        WHERE %(among)s = 'entries' AND (one.arrival_id, one.position) > (%(after_arrival)s::bigint, %(after_position)s::bigint)
        ORDER BY one.arrival_id, one.position LIMIT %(most)s
    ) UNION (
        SELECT one.arrival_id, one.position FROM {schema}.aside AS one
        WHERE %(among)s = 'aside' AND (one.arrival_id, one.position) > (%(after_arrival)s::bigint, %(after_position)s::bigint)
        ORDER BY one.arrival_id, one.position LIMIT %(most)s
    ) UNION (
        SELECT one.arrival_id, one.position FROM {schema}.history AS one
        WHERE %(among)s = 'history' AND (one.arrival_id, one.position) > (%(after_arrival)s::bigint, %(after_position)s::bigint)
        ORDER BY one.arrival_id, one.position LIMIT %(most)s
    ) UNION (
        SELECT one.arrival_id, one.position FROM {schema}.unrouted AS one
        WHERE %(among)s = 'unrouted' AND (one.arrival_id, one.position) > (%(after_arrival)s::bigint, %(after_position)s::bigint)
        ORDER BY one.arrival_id, one.position LIMIT %(most)s
    ) UNION (
        SELECT %(after_arrival)s::bigint, %(after_position)s::bigint WHERE %(among)s = 'one'
    )
), last AS (
    SELECT arrival_id AS last_arrival, position AS last_position, count(*) OVER () AS read FROM candidate
    ORDER BY arrival_id DESC, position DESC LIMIT 1
), page AS MATERIALIZED (
    SELECT place.*, failed.error
    FROM candidate CROSS JOIN LATERAL (
        SELECT * FROM {schema}.message_places AS one
        WHERE one.arrival_id = candidate.arrival_id AND one.position = candidate.position
        OFFSET 0
    ) AS place
    LEFT JOIN LATERAL (
        SELECT one.error_class || ': ' || one.error AS error
        FROM {schema}.faults AS one JOIN {schema}.queues AS its USING (queue_id)
        WHERE one.message_id = place.message_id AND its.queue = place.queue
        ORDER BY one.fault_id DESC LIMIT 1
    ) AS failed ON TRUE
    WHERE (%(queue)s::text IS NULL OR place.queue = %(queue)s)
        AND (%(group)s::text IS NULL OR place.group_key = %(group)s)
        AND (%(status)s::text IS NULL OR place.status = %(status)s)
        AND (%(type)s::text IS NULL OR place.type = %(type)s)
        AND (%(message_id)s::text IS NULL OR place.message_id = %(message_id)s)
        AND (%(id_space)s::text IS NULL OR place.id_space = %(id_space)s)
        AND (%(since)s::timestamptz IS NULL OR place.received_at >= %(since)s::timestamptz)
        AND (%(since_ago)s::interval IS NULL OR place.received_at >= clock_timestamp() - %(since_ago)s::interval)
        AND (%(until)s::timestamptz IS NULL OR place.received_at < %(until)s::timestamptz)
        AND (%(until_ago)s::interval IS NULL OR place.received_at < clock_timestamp() - %(until_ago)s::interval)
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
        AND (%(text)s::text IS NULL OR place.reason ILIKE %(text)s OR failed.error ILIKE %(text)s)
)
SELECT
    last.last_arrival, last.last_position, last.read, place.arrival_id, place.position,
    place.message_id, place.type, location, epoch, number, place.queue, place.group_key AS "group", place.status, reason, sequence, ordinal,
    priority, attempt, nullif(visible_at, 'infinity') AS visible_at, waits, subscriptions, received_at, since, body_bytes,
    parts, id_space, place.error, later.postponed, later.postponed_until
FROM last LEFT JOIN page AS place ON TRUE
LEFT JOIN LATERAL (
    SELECT one.postponed, CASE
        WHEN one.postponed_until = one.visible_at AND one.visible_at > clock_timestamp() THEN one.visible_at
    END AS postponed_until
    FROM {schema}.entries AS one JOIN {schema}.queues AS its USING (queue_id)
    WHERE one.arrival_id = place.arrival_id AND one.position = place.position AND its.queue = place.queue
    LIMIT 1
) AS later ON TRUE
ORDER BY place.arrival_id, place.position, place.queue
