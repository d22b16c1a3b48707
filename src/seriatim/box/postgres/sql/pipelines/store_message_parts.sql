-- Purpose: store the attachments of a part's messages.
-- Index: message_parts_pkey.
COPY {schema}.message_parts (arrival_id, position, number, name, content_type, body) FROM STDIN (FORMAT binary)
