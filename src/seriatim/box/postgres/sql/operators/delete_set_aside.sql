-- Purpose: delete messages that were set aside with one of these dispositions, and unrouted ones, and record each in
-- the operator log; the next clean-up deletes the messages without other references.
-- Locks: the rows; waits for a resubmission of them.
-- Index: aside_pkey, unrouted_pkey, spool_pkey, queues_pkey.
WITH refused AS (
    DELETE FROM {schema}.aside
    WHERE entry_id = ANY (%(entry_ids)s::bigint[]) AND disposition = ANY (%(dispositions)s::text[])
    RETURNING entry_id, queue_id, group_key, disposition AS status, arrival_id, position
), unwanted AS (
    DELETE FROM {schema}.unrouted AS one
    USING unnest(%(arrival_ids)s::bigint[], %(positions)s::bigint[]) AS chosen (arrival_id, position)
    WHERE one.arrival_id = ANY (ARRAY[chosen.arrival_id]) AND one.position = ANY (ARRAY[chosen.position])
    RETURNING one.arrival_id, one.position
), gone AS (
    SELECT entry_id, queue_id, group_key, status, arrival_id, position FROM refused
    UNION ALL
    SELECT NULL, NULL, NULL, 'unrouted', arrival_id, position FROM unwanted
), logged AS (
    INSERT INTO {schema}.operator_log (actor, action, queue, group_key, reason, details)
    SELECT
        %(actor)s, 'delete', place.queue, gone.group_key, %(reason)s,
        jsonb_strip_nulls(jsonb_build_object(
            'entry_id', gone.entry_id, 'message_id', stored.message_id, 'status', gone.status
        ))
    FROM gone
    JOIN {schema}.spool AS stored
        ON stored.arrival_id = ANY (ARRAY[gone.arrival_id]) AND stored.position = ANY (ARRAY[gone.position])
    LEFT JOIN {schema}.queues AS place USING (queue_id)
    ORDER BY gone.entry_id, gone.arrival_id, gone.position
)
SELECT entry_id FROM gone
