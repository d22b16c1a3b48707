-- Purpose: the ids of the messages from which a message results, and of those that result from it, oldest first: its parent and its results; and, if
-- it has a place at a gate (`origin_queue`, `origin_group`, `origin_ordinal`), all that has this place, and the message whose place it is.
-- Index: entries_of_group, aside_of_group, history_of_group for the message of a place; the properties of messages have none: the spool is
-- read, once a look; or, by spool_pkey, only `within` messages that came after the message, and by spool_by_time its parent.
WITH place AS MATERIALIZED (
    SELECT one.arrival_id, one.position
    FROM {schema}.queues AS known
    CROSS JOIN LATERAL (
        SELECT arrival_id, position FROM {schema}.entries
        WHERE queue_id = known.queue_id AND group_key = %(origin_group)s AND ordinal = %(origin_ordinal)s
        UNION ALL
        SELECT arrival_id, position FROM {schema}.aside
        WHERE queue_id = known.queue_id AND group_key = %(origin_group)s AND ordinal = %(origin_ordinal)s
        UNION ALL
        SELECT arrival_id, position FROM {schema}.history
        WHERE queue_id = known.queue_id AND group_key = %(origin_group)s AND ordinal = %(origin_ordinal)s
    ) AS one
    WHERE known.queue = %(origin_queue)s
), stored AS (
    SELECT arrival_id, position, message_id, context FROM {schema}.spool WHERE %(within)s::bigint IS NULL
    UNION ALL
    SELECT * FROM (
        SELECT later.arrival_id, later.position, later.message_id, later.context FROM {schema}.spool AS later
        WHERE %(within)s::bigint IS NOT NULL AND later.arrival_id >= (
            SELECT min(one.arrival_id) FROM {schema}.spool AS one
            WHERE one.message_id = %(message_id)s AND one.received_at = ANY (ARRAY(
                SELECT published_at FROM {schema}.message_ids WHERE message_id = %(message_id)s
            ))
        )
        ORDER BY later.arrival_id, later.position LIMIT %(within)s::bigint
    ) AS after
    UNION
    SELECT one.arrival_id, one.position, one.message_id, one.context FROM {schema}.spool AS one
    WHERE %(within)s::bigint IS NOT NULL AND one.message_id = %(parent_id)s AND one.received_at = ANY (ARRAY(
        SELECT published_at FROM {schema}.message_ids WHERE message_id = %(parent_id)s
    ))
    UNION
    SELECT one.arrival_id, one.position, one.message_id, one.context
    FROM place CROSS JOIN LATERAL (
        SELECT * FROM {schema}.spool AS its
        WHERE its.arrival_id = place.arrival_id AND its.position = place.position OFFSET 0
    ) AS one
    WHERE %(within)s::bigint IS NOT NULL
)
SELECT
    stored.message_id, stored.context ->> 'origin_queue' AS origin_queue, stored.context ->> 'origin_group' AS origin_group,
    (stored.context ->> 'origin_ordinal')::bigint AS origin_ordinal
FROM stored
WHERE stored.message_id = %(parent_id)s::text OR stored.context ->> 'parent_id' = %(message_id)s
    OR stored.context @> jsonb_build_object(
        'origin_queue', %(origin_queue)s::text, 'origin_group', %(origin_group)s::text, 'origin_ordinal', %(origin_ordinal)s::bigint
    )
    OR (stored.arrival_id, stored.position) IN (SELECT arrival_id, position FROM place)
ORDER BY stored.arrival_id, stored.position
LIMIT %(limit)s
