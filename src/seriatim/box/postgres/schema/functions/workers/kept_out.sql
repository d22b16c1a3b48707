-- Return which of these messages (NULL: of all) this transaction has published so that they are unrouted, or set
-- aside as invalid by a queue, and the reason. For an unrouted one, `queue_id` is NULL. `bodies_of`:
-- the queues of which they have bodies.
-- is: stable, definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.kept_out(message_ids text[], bodies_of integer[])
RETURNS TABLE (
    queue_id integer, group_key text, message_id text, type text, context text, property_types jsonb, problem text,
    body bytea, content_type text, part_names text[], part_content_types text[], part_bodies bytea[]
)
AS $function$
#variable_conflict use_column
BEGIN
    PERFORM {schema}.permit('publish', ARRAY[]::integer[]);
    RETURN QUERY
    SELECT found.queue_id, found.group_key, stored.message_id, stored.type, stored.context::text,
        stored.property_types, found.problem, whole.*
    FROM {schema}.arrivals AS arrival
    CROSS JOIN LATERAL (
        SELECT waiting.position, NULL::integer AS queue_id, NULL AS group_key, waiting.problem
        FROM {schema}.unrouted AS waiting WHERE waiting.arrival_id = arrival.arrival_id
        UNION ALL
        SELECT gone.position, gone.queue_id, gone.group_key, gone.reason
        FROM {schema}.aside AS gone WHERE gone.arrival_id = arrival.arrival_id AND gone.disposition = 'invalid'
    ) AS found
    JOIN {schema}.spool AS stored ON stored.arrival_id = arrival.arrival_id AND stored.position = found.position
    LEFT JOIN LATERAL {schema}.whole_message(stored.arrival_id, stored.position) AS whole
        ON found.queue_id = ANY (bodies_of)
    WHERE arrival.transaction = pg_current_xact_id_if_assigned()
        AND (kept_out.message_ids IS NULL OR stored.message_id = ANY (kept_out.message_ids))
    ORDER BY coalesce(stored.serial, stored.arrival_id + stored.position), found.queue_id;
END
$function$;
