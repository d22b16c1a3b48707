-- Purpose: stage the attachments of a part's messages.
-- Index: staged_message_parts_of_part.
COPY {schema}.staged_message_parts (part_id, place, number, name, content_type, body) FROM STDIN (FORMAT binary)
