-- Purpose: the messages of an id, the newest of each id space, with their bodies, and the place of their parts.
-- Right: see_bodies.
-- Index: none by id where it has been forgotten; the spool is read. Once a look, by a person.
SELECT DISTINCT ON (id_space)
    message_id, type, location, epoch, number, content_type, context::text, property_types, body, received_at, parts,
    id_space, arrival_id, position
FROM {schema}.stored_messages
WHERE message_id = %(message_id)s AND (%(id_space)s::text IS NULL OR id_space = %(id_space)s)
ORDER BY id_space, arrival_id DESC
