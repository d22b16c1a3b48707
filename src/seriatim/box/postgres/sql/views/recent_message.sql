-- Purpose: message.sql for a remembered id: the message was stored at the moment that is kept with its id.
-- Right: see_bodies.
-- Index: message_ids_pkey, spool_by_time.
SELECT DISTINCT ON (id_space)
    message_id, type, location, epoch, number, content_type, context::text, property_types, body, received_at, parts,
    id_space, arrival_id, position
FROM {schema}.stored_messages
WHERE message_id = %(message_id)s AND (%(id_space)s::text IS NULL OR id_space = %(id_space)s)
    AND received_at = ANY (ARRAY(SELECT published_at FROM {schema}.message_ids WHERE message_id = %(message_id)s))
ORDER BY id_space, arrival_id DESC
