-- Purpose: a message with its body.
-- Caller: places.py.
-- Locks: none.
-- Index: none by id where it has been forgotten; the spool is read. Once a look, by a person.
SELECT message_id, type, location, epoch, number, content_type, context::text, body, received_at
FROM {schema}.messages WHERE message_id = %(message_id)s
