-- Purpose: the bodies that operators have put in the place of others, of messages that are handed out again.
-- Caller: edited.py, only where a message was handed out before.
-- Locks: none.
-- Index: edited_bodies_pkey, entries_pkey.
SELECT entry_id, body FROM {schema}.edited(%(queue_id)s, %(entry_ids)s::bigint[])
