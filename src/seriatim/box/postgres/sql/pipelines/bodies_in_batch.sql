-- Purpose: the bodies of messages of dialogs that were put into a reader's next batch, if their types are checked.
-- Index: entries_pkey, spool_pkey.
SELECT
    stored.context -> 'dialog' ->> 'handle' AS handle,
    (stored.context -> 'dialog' ->> 'sequence')::bigint AS sequence, stored.message_id, stored.type, stored.body
FROM unnest(%(entry_ids)s::bigint[]) AS taken (entry_id)
JOIN {schema}.entries AS entry USING (entry_id)
JOIN {schema}.spool AS stored USING (arrival_id, position)
WHERE stored.type = ANY (%(types)s::text[]) AND stored.context -> 'dialog' ->> 'sequence' IS NOT NULL
