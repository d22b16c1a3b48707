-- Purpose: the places of messages, like places.sql, with the keys of their bodies and edits; or only some entries of
-- some groups.
-- Right: see_bodies.
-- Index: entries_of_group, aside_of_group, history_of_group where groups are given; those of places.sql;
-- entries_of_message, aside_of_message, history_of_message.
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
{last_fault()}
WHERE {place_fits()}
    AND (%(group_keys)s::text[] IS NULL OR place.group_key = ANY (%(group_keys)s::text[]))
    AND (%(entry_ids)s::bigint[] IS NULL OR held.entry_id = ANY (%(entry_ids)s::bigint[]))
ORDER BY place.stamp, place.serial, place.queue
