-- Purpose: the messages of a queue that stop themselves alone, faulted, postponed or waiting for their next attempt; some by their ids or their
-- entries, or all that are faulted.
-- Index: entries_faulted, entries_arrived, spool_pkey; with ids or entries all that waits in the queue is read.
SELECT entry.entry_id, entry.group_key AS "group", stored.message_id, entry.status = 'faulted' AS is_faulted, stored.type,
    stored.content_type, stored.context::text, stored.property_types
FROM {schema}.entries AS entry JOIN {schema}.spool AS stored USING (arrival_id, position)
WHERE entry.queue_id = %(queue_id)s AND (
    entry.status = 'faulted' OR (%(message_ids)s::text[] IS NOT NULL OR %(entry_ids)s::bigint[] IS NOT NULL)
        AND entry.status = 'arrived' AND (entry.attempt > 0 OR entry.postponed_until = entry.visible_at)
        AND entry.visible_at > clock_timestamp() AND entry.visible_at < 'infinity'
)
    AND (%(message_ids)s::text[] IS NULL OR stored.message_id = ANY (%(message_ids)s::text[]))
    AND (%(entry_ids)s::bigint[] IS NULL OR entry.entry_id = ANY (%(entry_ids)s::bigint[]))
ORDER BY entry.entry_id
