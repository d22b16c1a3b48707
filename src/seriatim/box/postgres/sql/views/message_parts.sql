-- Purpose: the parts of one message, in their order.
-- Right: see_bodies.
-- Index: message_parts_pkey.
SELECT name, content_type, body FROM {schema}.message_parts
WHERE arrival_id = %(arrival_id)s AND position = %(position)s ORDER BY number
