-- Purpose: where messages are, oldest first: a row for each queue that has one, and for one that nobody wanted.
-- Caller: message_places.py.
-- Locks: none.
-- Index: entries_of_group, aside_of_group, history_of_group where a queue is given, and their indexes by message where
-- an id is; otherwise all of it is read.
SELECT
    message_id, type, location, epoch, number, queue, group_key AS "group", status, reason, sequence, ordinal, priority,
    attempt, nullif(visible_at, 'infinity') AS visible_at, waits, subscriptions, received_at, since, body_bytes,
    parts, id_space
FROM {schema}.message_places
WHERE (%(queue)s::text IS NULL OR queue = %(queue)s)
    AND (%(group)s::text IS NULL OR group_key = %(group)s)
    AND (%(status)s::text IS NULL OR status = %(status)s)
    AND (%(type)s::text IS NULL OR type = %(type)s)
    AND (%(message_id)s::text IS NULL OR message_id = %(message_id)s)
    AND (%(id_space)s::text IS NULL OR id_space = %(id_space)s)
ORDER BY stamp, position, queue
LIMIT %(limit)s
