-- Return requests of the caller, each by its place in the arrays, from 1, with its first replies, a row each, in the order in
-- which they were committed; one row if there are none yet; one without `request_id` if the request isn't there, or isn't
-- the caller's. `largest`: NULL; or return only requests whose callers needn't wait any more, because the request has its
-- `counts` of replies, was set aside, or is over; a reply with parts, or with a larger body, is left to another look (`is_left`). `failed_in`: the
-- queue that has set the request aside, with the disposition and the reason.
-- is: stable, definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.replies_of(requests text[], counts bigint[], askers text[], largest integer)
RETURNS TABLE (
    place bigint, request_id text, asked_by text, reply_type text, correlation_id text, until timestamptz,
    message_id text, type text, context text, property_types jsonb, received_at timestamptz, is_left boolean,
    body bytea, content_type text, part_names text[], part_content_types text[], part_bodies bytea[],
    failed_in text, disposition text, reason text
)
AS $function$
#variable_conflict use_column
BEGIN
    PERFORM {schema}.permit_anything();
    RETURN QUERY
    SELECT
        wanted.place, asked.request_id, asked.message_id, asked.reply_type, asked.correlation_id, asked.until,
        kept.message_id, kept.type, kept.context::text, kept.property_types, kept.received_at, kept.is_left, whole.*,
        failed.queue, failed.disposition, failed.reason
    FROM unnest(requests, counts, askers) WITH ORDINALITY AS wanted (request_id, how_many, asker, place)
    LEFT JOIN {schema}.open_requests AS asked
        ON asked.request_id = ANY (ARRAY[wanted.request_id]) AND asked.role = {schema}.caller()
        AND asked.asker = wanted.asker AND asked.until > clock_timestamp()
    LEFT JOIN LATERAL (
        SELECT known.queue, gone.disposition, gone.reason FROM {schema}.replies AS one
        JOIN {schema}.aside AS gone USING (entry_id)
        JOIN {schema}.queues AS known USING (queue_id)
        WHERE one.request_id = ANY (ARRAY[asked.request_id]) AND one.entry_id > 0 ORDER BY one.entry_id LIMIT 1
    ) AS failed ON TRUE
    LEFT JOIN LATERAL (
        SELECT stored.*, run.stamp,
            largest IS NOT NULL AND (stored.parts IS NOT NULL OR octet_length(stored.body) > largest) AS is_left
        FROM {schema}.replies AS one
        JOIN {schema}.spool AS stored USING (arrival_id, position)
        JOIN {schema}.tickets AS run USING (arrival_id)
        WHERE one.request_id = ANY (ARRAY[asked.request_id]) AND one.entry_id = 0
        ORDER BY run.stamp, coalesce(stored.serial, arrival_id + position) LIMIT wanted.how_many
    ) AS kept ON TRUE
    LEFT JOIN LATERAL {schema}.whole_message(kept.arrival_id, kept.position) AS whole ON kept.is_left IS NOT TRUE
    WHERE largest IS NULL OR asked.request_id IS NULL OR failed.queue IS NOT NULL OR wanted.how_many <= (
        SELECT count(*) FROM {schema}.replies AS one
        WHERE one.request_id = ANY (ARRAY[asked.request_id]) AND one.entry_id = 0
    )
    ORDER BY wanted.place, kept.stamp, coalesce(kept.serial, kept.arrival_id + kept.position);
END
$function$;
