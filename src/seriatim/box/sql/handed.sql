-- Purpose: the messages of entries that are handed out, in their order.
-- Caller: deliver.py.
-- Locks: none; the entries are those of a group that is locked.
-- Index: entries_pkey, spool_pkey, tickets_arrival_id_key, locations_pkey.
SELECT
    message_id, type, content_type, context, property_types, body, received_at, location, epoch, number, attempt,
    priority, subscription_ids, parts
FROM {schema}.handed(%(queue_id)s, %(entry_ids)s::bigint[])
