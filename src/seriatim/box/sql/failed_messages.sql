-- Purpose: what failures tell of messages that are in a queue, or were set aside from it.
-- Caller: failures.py, where somebody asks for failures.
-- Locks: none.
-- Index: entries_pkey, aside_pkey, spool_pkey.
SELECT group_key, message_id, type, context, property_types, ordinal, attempt, reason
FROM {schema}.failed_messages(%(queue_id)s, %(entry_ids)s::bigint[])
