-- Purpose: the messages of a part that has to be routed again, from a place on, with their given groups and sequences,
-- if they go straight into one queue, and their problems.
-- Index: staged_messages_of_part, staged_entries_of_part, staged_message_parts_of_part.
SELECT
    place, message_id, type, location, content_type, context, property_types, body, entry.group_key, entry.sequence,
    CASE WHEN message.parts IS NOT NULL THEN ARRAY(
        SELECT ROW(one.name, one.content_type, one.body) FROM {schema}.staged_message_parts AS one
        WHERE one.part_id = message.part_id AND one.place = message.place ORDER BY one.number
    ) END AS parts,
    message.problem
FROM {schema}.staged_messages AS message
LEFT JOIN LATERAL (
    SELECT group_key, sequence FROM {schema}.staged_entries AS one
    WHERE one.part_id = message.part_id AND one.place = message.place LIMIT 1
) AS entry ON TRUE
WHERE part_id = %(part_id)s AND place > %(after)s ORDER BY place LIMIT %(at_most)s
