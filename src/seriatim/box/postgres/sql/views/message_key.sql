-- Purpose: the message with an id: the newest of each id space.
-- Index: none by id; the spool is read, once a call.
SELECT DISTINCT ON (id_space) arrival_id, position, id_space FROM {schema}.spool AS spool
WHERE message_id = %(message_id)s AND (%(id_space)s::text IS NULL OR id_space = %(id_space)s)
    -- What a pipeline has only staged has none.
    AND EXISTS (SELECT FROM {schema}.tickets AS run WHERE run.arrival_id = spool.arrival_id)
ORDER BY id_space, arrival_id DESC
