-- Purpose: the parts of messages that are handed out, or looked at, in their order.
-- Caller: turns.py and peek.py, only where a message has some.
-- Locks: none.
-- Index: entries_pkey, message_parts_pkey.
SELECT entry_id, name, content_type, body FROM {schema}.parts_of(%(queue_id)s, %(entry_ids)s::bigint[])
