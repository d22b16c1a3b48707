-- Purpose: the messages of a reader's batch, of some groups, each group in order.
-- Locks: none; a complete batch doesn't change.
-- Index: entries_in_hand, spool_pkey, message_parts_pkey, tickets_arrival_id_key, locations_pkey.
SELECT
    stored.message_id, stored.type, stored.location, stored.epoch, stored.number, stored.content_type, stored.received_at,
    CASE WHEN %(with_gates)s THEN stored.context - %(origin)s::text[] ELSE stored.context END::text AS context,
    stored.property_types::text, stored.body,
    CASE WHEN stored.parts IS NOT NULL THEN ARRAY(
        SELECT ROW(part.name, part.content_type, part.body) FROM {schema}.message_parts AS part
        WHERE part.arrival_id = stored.arrival_id AND part.position = stored.position ORDER BY part.number
    ) END AS parts,
    entry.group_key AS "group", entry.sequence, entry.ordinal, entry.late
FROM {schema}.entries AS entry
JOIN {schema}.stored_messages AS stored USING (arrival_id, position)
WHERE entry.queue_id = %(queue_id)s AND entry.batch = %(batch)s
    AND entry.group_key >= %(first)s AND (%(next)s::text IS NULL OR entry.group_key < %(next)s::text)
ORDER BY entry.group_key, entry.ordinal
