-- Purpose: when a message was published that isn't there any more, if that was lately.
-- Caller: trace.py.
-- Locks: none.
-- Index: message_ids_pkey.
SELECT published_at FROM {schema}.message_ids WHERE message_id = %(message_id)s
