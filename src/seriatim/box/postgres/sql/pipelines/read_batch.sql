-- Purpose: the messages of a reader's batch, of some groups, each group in order.
-- Locks: none; a complete batch doesn't change.
-- Index: entries_in_hand, spool_pkey, message_parts_pkey, tickets_arrival_id_key, locations_pkey.
SELECT
    {message_columns(CASE WHEN %(with_gates)s THEN stored.context - %(origin)s::text[] ELSE stored.context END)},
    entry.group_key AS "group", entry.sequence, entry.ordinal, entry.late
FROM {schema}.entries AS entry
JOIN {schema}.stored_messages AS stored USING (arrival_id, position)
WHERE entry.queue_id = %(queue_id)s AND entry.batch = %(batch)s
    AND entry.group_key >= %(first)s AND (%(next)s::text IS NULL OR entry.group_key < %(next)s::text)
ORDER BY entry.group_key, entry.ordinal
