-- Purpose: messages that were set aside and are no dead letters, and unrouted ones, the oldest first, up to a limit; of
-- one queue, group, type, age or id; after a row, by when it was set aside, its arrival, position and entry.
-- Index: aside_of_group where a group is given, else aside_by_time and unrouted_by_time, in whose order each is read
-- until there are enough; spool_pkey.
SELECT
    one.message_id, one.type, place.queue, one.group_key AS "group", one.status, one.sequence, one.reason, one.since,
    one.received_at, one.entry_id, one.arrival_id, one.position
FROM (
    (
        SELECT
            stored.message_id, stored.type, own.queue_id, own.group_key, own.disposition AS status, own.sequence, own.reason,
            own.aside_at AS since, stored.received_at, own.entry_id, own.arrival_id, own.position
        FROM {schema}.aside AS own
        CROSS JOIN LATERAL (
            SELECT its.message_id, its.type, its.received_at FROM {schema}.spool AS its
            WHERE its.arrival_id = own.arrival_id AND its.position = own.position LIMIT 1
        ) AS stored
        WHERE own.disposition <> 'dead' AND own.disposition = ANY (%(status)s::text[])
            AND (%(queue_id)s::integer IS NULL OR own.queue_id = %(queue_id)s)
            AND (%(group)s::text IS NULL OR own.group_key = %(group)s)
            AND (%(message_type)s::text IS NULL OR stored.type = %(message_type)s)
            AND (%(message_ids)s::text[] IS NULL OR stored.message_id = ANY (%(message_ids)s))
            AND (%(older_than)s::interval IS NULL OR own.aside_at < clock_timestamp() - %(older_than)s::interval)
            AND (
                %(after_at)s::timestamptz IS NULL
                OR (own.aside_at, own.arrival_id, own.position, own.entry_id)
                    > (%(after_at)s::timestamptz, %(after_arrival)s::bigint, %(after_position)s::bigint, %(after_entry)s::bigint)
            )
        ORDER BY own.aside_at, own.arrival_id, own.position, own.entry_id
        LIMIT %(limit)s
    )
    UNION ALL
    (
        SELECT
            stored.message_id, stored.type, NULL, NULL, 'unrouted', NULL, own.problem, own.unrouted_at, stored.received_at,
            NULL, own.arrival_id, own.position
        FROM {schema}.unrouted AS own
        CROSS JOIN LATERAL (
            SELECT its.message_id, its.type, its.received_at FROM {schema}.spool AS its
            WHERE its.arrival_id = own.arrival_id AND its.position = own.position LIMIT 1
        ) AS stored
        WHERE 'unrouted' = ANY (%(status)s::text[]) AND %(queue_id)s::integer IS NULL AND %(group)s::text IS NULL
            AND (%(message_type)s::text IS NULL OR stored.type = %(message_type)s)
            AND (%(message_ids)s::text[] IS NULL OR stored.message_id = ANY (%(message_ids)s))
            AND (%(older_than)s::interval IS NULL OR own.unrouted_at < clock_timestamp() - %(older_than)s::interval)
            AND (
                %(after_at)s::timestamptz IS NULL
                OR (own.unrouted_at, own.arrival_id, own.position)
                    > (%(after_at)s::timestamptz, %(after_arrival)s::bigint, %(after_position)s::bigint)
            )
        ORDER BY own.unrouted_at, own.arrival_id, own.position
        LIMIT %(limit)s
    )
) AS one
LEFT JOIN {schema}.queues AS place USING (queue_id)
ORDER BY one.since, one.arrival_id, one.position, one.entry_id NULLS FIRST
LIMIT %(limit)s
