-- Purpose: some of the messages that a queue has, in any state.
-- Index: entries_pkey, spool_pkey, message_parts_pkey, tickets_arrival_id_key, locations_pkey.
SELECT
    {message_columns(stored.context)},
    CASE WHEN %(ordered)s THEN entry.group_key END AS "group", entry.sequence, entry.ordinal, entry.late
FROM {schema}.entries AS entry
JOIN {schema}.stored_messages AS stored USING (arrival_id, position)
WHERE entry.queue_id = %(queue_id)s
    AND entry.entry_id >= %(first)s AND (%(next)s::bigint IS NULL OR entry.entry_id < %(next)s::bigint)
ORDER BY entry.entry_id
