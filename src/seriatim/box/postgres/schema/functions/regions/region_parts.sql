-- Return the parts of messages, in order.
-- is: stable, own path, no seqscan
CREATE OR REPLACE FUNCTION {schema}.region_parts(
    of_arrivals bigint[], of_positions bigint[],
    OUT arrival_id bigint, OUT "position" bigint, OUT name text, OUT content_type text, OUT body bytea
) RETURNS SETOF record
AS $function$
#variable_conflict use_column
BEGIN
    RETURN QUERY
        SELECT part.arrival_id, part.position, part.name, part.content_type, part.body
        FROM unnest(of_arrivals, of_positions) AS given (arrival_id, "position")
        JOIN {schema}.message_parts AS part
            ON part.arrival_id = ANY (ARRAY[given.arrival_id]) AND part.position = ANY (ARRAY[given.position])
        ORDER BY part.arrival_id, part.position, part.number;
END
$function$;
