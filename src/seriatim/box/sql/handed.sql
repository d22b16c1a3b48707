-- Purpose: the messages of entries that are handed out, in their order.
-- Caller: deliver.py.
-- Locks: none; the entries are those of a group that is locked.
-- Index: entries_pkey, spool_pkey, tickets_arrival_id_key, locations_pkey.
SELECT
    stored.message_id,
    stored.type,
    stored.content_type,
    stored.context::text,
    stored.property_types,
    stored.body,
    stored.received_at,
    run.location,
    run.epoch + (run.number - 1 + stored.position) / place.last_number AS epoch,
    (run.number - 1 + stored.position) %% place.last_number + 1 AS number,
    entry.attempt,
    entry.priority,
    entry.subscription_ids
FROM unnest(%(entry_ids)s::bigint[]) WITH ORDINALITY AS handed (entry_id, at)
JOIN {schema}.entries AS entry USING (entry_id)
JOIN {schema}.spool AS stored USING (arrival_id, position)
JOIN {schema}.tickets AS run USING (arrival_id)
JOIN {schema}.locations AS place USING (location)
ORDER BY handed.at
