-- Purpose: what failures tell of messages that are in queues, or were set aside from them.
-- Caller: notices.py, where somebody asks for failures.
-- Locks: none.
-- Index: entries_pkey, aside_pkey, spool_pkey.
SELECT
    entry_id, queue_id, group_key, message_id, type, context, property_types, ordinal, attempt, disposition, reason
FROM {schema}.failed_messages(%(entry_ids)s::bigint[])
