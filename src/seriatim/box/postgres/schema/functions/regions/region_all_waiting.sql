-- Return the next waiting messages, about 32 MiB at most, as `region_outgoing` reads an outbox. `age`: microseconds
-- since they were published.
-- is: stable, own path, no seqscan
CREATE OR REPLACE FUNCTION {schema}.region_all_waiting(
    of_name text, behind bigint, at_most integer,
    OUT waiting_id bigint, OUT message_id text, OUT queue text, OUT session text, OUT number bigint,
    OUT reservation text, OUT type text,
    OUT content_type text, OUT context text, OUT property_types jsonb, OUT body bytea, OUT part_names text[],
    OUT part_content_types text[],
    OUT part_bodies bytea[], OUT age bigint
) RETURNS SETOF record
AS $function$
#variable_conflict use_column
BEGIN
    RETURN QUERY
        SELECT one.waiting_id, one.message_id, place.queue, one.session, one.number, one.reservation, one.type,
            one.content_type, one.context,
            one.property_types, one.body, one.part_names, one.part_content_types, one.part_bodies,
            greatest((extract(epoch FROM clock_timestamp() - one.published_at) * 1000000)::bigint, 0)
        FROM (
            SELECT mine.*,
                sum(octet_length(mine.body)) OVER (ORDER BY mine.waiting_id) - octet_length(mine.body) AS before
            FROM (
                SELECT every.* FROM {schema}.region_waiting AS every
                WHERE every.name = of_name AND every.waiting_id > behind
                ORDER BY every.waiting_id LIMIT at_most
            ) AS mine
        ) AS one
        JOIN {schema}.queues AS place USING (queue_id)
        WHERE one.before < 33554432
        ORDER BY one.waiting_id;
END
$function$;
