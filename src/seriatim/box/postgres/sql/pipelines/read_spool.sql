-- Purpose: some of the messages that the box has.
-- Index: spool_pkey, message_parts_pkey, tickets_arrival_id_key, locations_pkey.
SELECT
    {message_columns(stored.context)}
FROM {schema}.stored_messages AS stored
WHERE stored.arrival_id >= %(first)s AND (%(next)s::bigint IS NULL OR stored.arrival_id < %(next)s::bigint)
ORDER BY stored.arrival_id, stored.position
