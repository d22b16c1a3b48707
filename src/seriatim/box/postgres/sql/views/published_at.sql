-- Purpose: when a deleted message was published, if that was lately; by id space.
-- Index: message_ids_pkey.
SELECT published_at, id_space FROM {schema}.message_ids
WHERE message_id = %(message_id)s AND (%(id_space)s::text IS NULL OR id_space = %(id_space)s)
ORDER BY id_space
