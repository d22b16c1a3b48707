-- Purpose: the messages of a reader's batch, some of them, where the queue has no groups.
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
    NULL::text AS "group", NULL::bigint AS sequence, NULL::bigint AS ordinal, FALSE AS late
FROM {schema}.entries AS entry
JOIN {schema}.stored_messages AS stored USING (arrival_id, position)
WHERE entry.queue_id = %(queue_id)s AND entry.batch = %(batch)s
    AND entry.entry_id >= %(first)s AND (%(next)s::bigint IS NULL OR entry.entry_id < %(next)s::bigint)
ORDER BY entry.rank, entry.entry_id
