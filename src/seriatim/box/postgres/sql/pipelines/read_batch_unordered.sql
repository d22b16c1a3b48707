-- Purpose: the messages of a reader's batch, some of them, where the queue has no groups.
-- Locks: none; a complete batch doesn't change.
-- Index: entries_in_hand, spool_pkey, message_parts_pkey, tickets_arrival_id_key, locations_pkey.
SELECT
    {message_columns(CASE WHEN %(with_gates)s THEN stored.context - %(origin)s::text[] ELSE stored.context END)},
    NULL::text AS "group", NULL::bigint AS sequence, NULL::bigint AS ordinal, FALSE AS late
FROM {schema}.entries AS entry
JOIN {schema}.stored_messages AS stored USING (arrival_id, position)
WHERE entry.queue_id = %(queue_id)s AND entry.batch = %(batch)s
    AND entry.entry_id >= %(first)s AND (%(next)s::bigint IS NULL OR entry.entry_id < %(next)s::bigint)
ORDER BY entry.rank, entry.entry_id
