-- Return which of these messages (NULL: of all) this transaction has published so that they are unrouted, or set
-- aside as invalid by a queue, and the reason. For an unrouted one, `queue_id` is NULL.
-- is: stable, definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.kept_out(message_ids text[])
RETURNS TABLE (
    queue_id integer, group_key text, message_id text, type text, context text, property_types jsonb, problem text
)
AS $function$
#variable_conflict use_column
BEGIN
    PERFORM {schema}.permit('publish', ARRAY[]::integer[]);
    RETURN QUERY
    SELECT found.queue_id, found.group_key, stored.message_id, stored.type, stored.context::text,
        stored.property_types, found.problem
    FROM {schema}.arrivals AS arrival
    CROSS JOIN LATERAL (
        SELECT waiting.position, NULL::integer AS queue_id, NULL AS group_key, waiting.problem
        FROM {schema}.unrouted AS waiting WHERE waiting.arrival_id = arrival.arrival_id
        UNION ALL
        SELECT gone.position, gone.queue_id, gone.group_key, gone.reason
        FROM {schema}.aside AS gone WHERE gone.arrival_id = arrival.arrival_id AND gone.disposition = 'invalid'
    ) AS found
    JOIN {schema}.spool AS stored ON stored.arrival_id = arrival.arrival_id AND stored.position = found.position
    WHERE arrival.transaction = pg_current_xact_id_if_assigned()
        AND (kept_out.message_ids IS NULL OR stored.message_id = ANY (kept_out.message_ids))
    ORDER BY coalesce(stored.serial, stored.arrival_id + stored.position), found.queue_id;
END
$function$;
