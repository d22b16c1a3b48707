-- Return the caller's request with its first replies, a row each, in the order in which they were committed; one row if
-- there are none yet; no row if it isn't there, or isn't the caller's. `failed_in`: the queue that has set the request
-- aside, with the disposition and the reason.
-- is: stable, definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.replies_of(of_request text, at_most bigint, of_asker text)
RETURNS TABLE (
    request_id text, asked_by text, reply_type text, correlation_id text, until timestamptz,
    message_id text, type text, context text, property_types jsonb, received_at timestamptz,
    body bytea, content_type text, part_names text[], part_content_types text[], part_bodies bytea[],
    failed_in text, disposition text, reason text
)
AS $function$
#variable_conflict use_column
BEGIN
    PERFORM {schema}.permit_anything();
    RETURN QUERY
    SELECT
        asked.request_id, asked.message_id, asked.reply_type, asked.correlation_id, asked.until,
        kept.message_id, kept.type, kept.context::text, kept.property_types, kept.received_at, whole.*,
        failed.queue, failed.disposition, failed.reason
    FROM {schema}.open_requests AS asked
    LEFT JOIN LATERAL (
        SELECT stored.*, run.stamp FROM {schema}.replies AS one
        JOIN {schema}.spool AS stored USING (arrival_id, position)
        JOIN {schema}.tickets AS run USING (arrival_id)
        WHERE one.request_id = asked.request_id AND one.entry_id = 0
        ORDER BY run.stamp, coalesce(stored.serial, arrival_id + position) LIMIT at_most
    ) AS kept ON TRUE
    LEFT JOIN LATERAL {schema}.whole_message(kept.arrival_id, kept.position) AS whole ON TRUE
    LEFT JOIN LATERAL (
        SELECT known.queue, gone.disposition, gone.reason FROM {schema}.replies AS one
        JOIN {schema}.aside AS gone USING (entry_id)
        JOIN {schema}.queues AS known USING (queue_id)
        WHERE one.request_id = asked.request_id AND one.entry_id > 0 ORDER BY one.entry_id LIMIT 1
    ) AS failed ON TRUE
    WHERE asked.request_id = of_request AND asked.role = {schema}.caller() AND asked.asker = of_asker
        AND asked.until > clock_timestamp()
    ORDER BY kept.stamp, coalesce(kept.serial, kept.arrival_id + kept.position);
END
$function$;
