-- Purpose: the next messages that nobody wanted, in order of commit, so that they can be routed again; locked.
-- Caller: resubmit.py.
-- Locks: their rows, until the transaction ends; who resubmits them, too, waits.
-- Index: unrouted_pkey, tickets_arrival_id_key, spool_pkey. It is sorted whole.
SELECT
    run.stamp, waiting.arrival_id, waiting.position, stored.message_id, stored.type, stored.content_type,
    stored.context::text, stored.property_types, stored.body, stored.received_at
FROM {schema}.unrouted AS waiting
JOIN {schema}.spool AS stored USING (arrival_id, position)
JOIN {schema}.tickets AS run USING (arrival_id)
WHERE (run.stamp, waiting.position) > (%(stamp)s, %(position)s)
    AND (%(type)s::text IS NULL OR stored.type = %(type)s)
    AND (%(message_ids)s::text[] IS NULL OR stored.message_id = ANY (%(message_ids)s))
ORDER BY run.stamp, waiting.position
LIMIT %(limit)s
FOR UPDATE OF waiting
