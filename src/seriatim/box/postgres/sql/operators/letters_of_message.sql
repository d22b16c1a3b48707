-- Purpose: the numbers of a message's dead letters, one for each queue.
-- Index: spool_by_time, aside_of_message.
SELECT letter.entry_id
FROM {schema}.spool AS stored
JOIN {schema}.aside AS letter USING (arrival_id, position)
WHERE stored.received_at = %(received_at)s AND stored.message_id = %(message_id)s AND stored.id_space = %(id_space)s
    AND letter.disposition = 'dead'
ORDER BY letter.entry_id
