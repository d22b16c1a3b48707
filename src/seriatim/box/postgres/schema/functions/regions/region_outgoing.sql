-- Return the next messages that the other box lacks, with their numbers here, about 32 MiB at most; `type` is NULL if
-- one isn't stored any more.
-- is: stable, own path, no seqscan
CREATE OR REPLACE FUNCTION {schema}.region_outgoing(
    of_name text, behind bigint, at_most integer,
    OUT outbox_id bigint, OUT message_id text, OUT arrival_id bigint, OUT "position" bigint, OUT type text,
    OUT content_type text,
    OUT context text, OUT property_types jsonb, OUT body bytea, OUT parts bigint, OUT age bigint, OUT queues text[],
    OUT sessions text[],
    OUT numbers bigint[]
) RETURNS SETOF record
AS $function$
#variable_conflict use_column
BEGIN
    RETURN QUERY
        SELECT one.outbox_id, one.message_id, one.arrival_id, one.position, stored.type, stored.content_type,
            stored.context::text,
            stored.property_types, stored.body, stored.parts::bigint,
            greatest((extract(epoch FROM clock_timestamp() - one.published_at) * 1000000)::bigint, 0),
            numbered.queues, numbered.sessions, numbered.numbers
        FROM (
            SELECT mine.*, sum(octet_length(had.body)) OVER (ORDER BY mine.outbox_id) - octet_length(had.body) AS before
            FROM (
                SELECT every.* FROM {schema}.region_outbox AS every
                WHERE every.name = of_name AND every.outbox_id > behind
                ORDER BY every.outbox_id LIMIT at_most
            ) AS mine
            LEFT JOIN {schema}.spool AS had
                ON had.arrival_id = ANY (ARRAY[mine.arrival_id]) AND had.position = ANY (ARRAY[mine.position])
        ) AS one
        LEFT JOIN {schema}.spool AS stored
            ON stored.arrival_id = ANY (ARRAY[one.arrival_id]) AND stored.position = ANY (ARRAY[one.position])
        LEFT JOIN LATERAL (
            SELECT array_agg(known.queue ORDER BY known.queue, its.number) AS queues,
                array_agg(its.session ORDER BY known.queue, its.number) AS sessions,
                array_agg(its.number ORDER BY known.queue, its.number) AS numbers
            FROM {schema}.region_numbers AS its JOIN {schema}.queues AS known USING (queue_id)
            WHERE its.arrival_id = ANY (ARRAY[one.arrival_id]) AND its.position = ANY (ARRAY[one.position])
                AND NOT its.withdrawn
        ) AS numbered ON TRUE
        WHERE coalesce(one.before, 0) < 33554432
        ORDER BY one.outbox_id;
END
$function$;
