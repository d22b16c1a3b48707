-- Purpose: the ids of the messages from which a message results, and of those that result from it, oldest first: its parent and its results; and, if
-- it has a place at a gate (`origin_queue`, `origin_group`, `origin_ordinal`), all that has this place, and the message whose place it is.
-- Caller: trace.py.
-- Locks: none.
-- Index: entries_of_group, aside_of_group, history_of_group for the message of a place; the properties of messages have none: the spool is
-- read, once a look.
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
)
SELECT
    stored.message_id, stored.context ->> 'origin_queue' AS origin_queue, stored.context ->> 'origin_group' AS origin_group,
    (stored.context ->> 'origin_ordinal')::bigint AS origin_ordinal
FROM {schema}.spool AS stored
WHERE stored.message_id = %(parent_id)s::text OR stored.context ->> 'parent_id' = %(message_id)s
    OR stored.context @> jsonb_build_object(
        'origin_queue', %(origin_queue)s::text, 'origin_group', %(origin_group)s::text, 'origin_ordinal', %(origin_ordinal)s::bigint
    )
    OR (stored.arrival_id, stored.position) IN (SELECT arrival_id, position FROM place)
ORDER BY stored.arrival_id, stored.position
LIMIT %(limit)s
