-- Purpose: stage messages of a part.
-- Index: staged_messages_of_part.
COPY {schema}.staged_messages (
    part_id, place, message_id, type, location, content_type, context, property_types, body, destinations, problem,
    parts
) FROM STDIN (FORMAT binary)
