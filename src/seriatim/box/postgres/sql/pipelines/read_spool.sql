-- Purpose: some of the messages that the box has.
-- Index: spool_pkey, message_parts_pkey, tickets_arrival_id_key, locations_pkey.
SELECT
    stored.message_id, stored.type, stored.location, stored.epoch, stored.number, stored.content_type, stored.received_at,
    stored.context::text, stored.property_types::text, stored.body,
    CASE WHEN stored.parts IS NOT NULL THEN ARRAY(
        SELECT ROW(part.name, part.content_type, part.body) FROM {schema}.message_parts AS part
        WHERE part.arrival_id = stored.arrival_id AND part.position = stored.position ORDER BY part.number
    ) END AS parts
FROM {schema}.stored_messages AS stored
WHERE stored.arrival_id >= %(first)s AND (%(next)s::bigint IS NULL OR stored.arrival_id < %(next)s::bigint)
ORDER BY stored.arrival_id, stored.position
