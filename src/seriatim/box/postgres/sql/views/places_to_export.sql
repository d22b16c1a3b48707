-- Purpose: where messages are, as places.sql has it, with what finds their bodies and edits; or only some entries of
-- some groups.
-- Caller: exported.py, through a cursor.
-- Right: see_bodies.
-- Locks: none.
-- Index: entries_of_group, aside_of_group, history_of_group where groups are given; those of places.sql; entries_of_message, aside_of_message, history_of_message.
SELECT
    place.arrival_id, place.position, held.entry_id, place.queue, place.group_key AS "group", place.message_id, place.type,
    place.status, place.sequence, place.attempt, place.reason, place.body_bytes, failed.error
FROM {schema}.message_places AS place
LEFT JOIN {schema}.queues AS its USING (queue)
LEFT JOIN LATERAL (
    SELECT one.entry_id FROM {schema}.entries AS one
    WHERE one.arrival_id = place.arrival_id AND one.position = place.position AND one.queue_id = its.queue_id
    UNION ALL
    SELECT one.entry_id FROM {schema}.aside AS one
    WHERE one.arrival_id = place.arrival_id AND one.position = place.position AND one.queue_id = its.queue_id
    UNION ALL
    SELECT one.entry_id FROM {schema}.history AS one
    WHERE one.arrival_id = place.arrival_id AND one.position = place.position AND one.queue_id = its.queue_id
    LIMIT 1
) AS held ON TRUE
LEFT JOIN LATERAL (
    SELECT one.error_class || ': ' || one.error AS error FROM {schema}.faults AS one
    WHERE one.message_id = place.message_id AND one.queue_id = its.queue_id
    ORDER BY one.fault_id DESC LIMIT 1
) AS failed ON TRUE
WHERE (%(queue)s::text IS NULL OR place.queue = %(queue)s)
    AND (%(group)s::text IS NULL OR place.group_key = %(group)s)
    AND (%(status)s::text IS NULL OR place.status = %(status)s)
    AND (%(type)s::text IS NULL OR place.type = %(type)s)
    AND (%(message_id)s::text IS NULL OR place.message_id = %(message_id)s)
    AND (%(id_space)s::text IS NULL OR place.id_space = %(id_space)s)
    AND (%(group_keys)s::text[] IS NULL OR place.group_key = ANY (%(group_keys)s::text[]))
    AND (%(entry_ids)s::bigint[] IS NULL OR held.entry_id = ANY (%(entry_ids)s::bigint[]))
    AND (%(since)s::timestamptz IS NULL OR place.received_at >= %(since)s::timestamptz)
    AND (%(since_ago)s::interval IS NULL OR place.received_at >= clock_timestamp() - %(since_ago)s::interval)
    AND (%(until)s::timestamptz IS NULL OR place.received_at < %(until)s::timestamptz)
    AND (%(until_ago)s::interval IS NULL OR place.received_at < clock_timestamp() - %(until_ago)s::interval)
    AND (%(names)s::text[] IS NULL OR EXISTS (
        SELECT FROM {schema}.spool AS stored
        WHERE stored.arrival_id = place.arrival_id AND stored.position = place.position
            AND ({schema}.has_properties(stored.context, %(names)s::text[], %(of_values)s::text[]) OR EXISTS (
                SELECT FROM {schema}.edits AS edit
                WHERE edit.arrival_id = stored.arrival_id AND edit.position = stored.position AND edit.context IS NOT NULL
                    AND {schema}.has_properties(edit.context, %(names)s::text[], %(of_values)s::text[])
            ))
    ))
    AND (%(text)s::text IS NULL OR place.reason ILIKE %(text)s OR failed.error ILIKE %(text)s)
ORDER BY place.stamp, place.position, place.queue
