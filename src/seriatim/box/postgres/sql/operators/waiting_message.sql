-- Purpose: where a message waits in a queue, by its id: an entry for each publisher that gave the id.
-- Index: entries_of_group, spool_pkey; without a group all waiting messages of the queue are read.
SELECT entry.entry_id, entry.group_key AS "group", entry.status::text, entry.sequence, entry.late
FROM {schema}.spool AS stored JOIN {schema}.entries AS entry USING (arrival_id, position)
WHERE stored.message_id = %(message_id)s AND entry.queue_id = %(queue_id)s
    AND (%(group_key)s::text IS NULL OR entry.group_key = %(group_key)s)
    AND (entry.meaning[1] & {number.VOID}) IS DISTINCT FROM {number.VOID} -- which only waits to pass
