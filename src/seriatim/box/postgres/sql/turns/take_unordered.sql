-- Purpose: the next messages of a queue without order, of lowest rank first, each locked.
-- Caller: turns.py.
-- Locks: the rows of these entries, until the transaction ends; those that others have are passed over.
-- Index: entries_arrived, spool_pkey, tickets_arrival_id_key, locations_pkey.
SELECT
    version, entry_id,
    message_id, type, content_type, context, property_types, body, received_at, location, epoch, number, attempt,
    priority, subscription_ids, parts
FROM {schema}.take_unordered(%(queue_id)s, %(at_most)s, %(from_rank)s)
