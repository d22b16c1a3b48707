-- Return those of some queues that are full.
-- is: stable, generic plan, no seqscan
CREATE OR REPLACE FUNCTION {schema}.full_among(of_queues integer[]) RETURNS integer[]
AS $function$
BEGIN
    RETURN ARRAY(
        SELECT place.queue_id
        FROM {schema}.queues AS place
        CROSS JOIN LATERAL (SELECT {schema}.whole_number(place.definition -> 'max_messages') AS most) AS limited
        WHERE place.queue_id = ANY (of_queues) AND limited.most IS NOT NULL AND limited.most <= (
            SELECT count(*) FROM (
                SELECT FROM {schema}.entries AS entry WHERE entry.queue_id = place.queue_id LIMIT limited.most
            ) AS counted
        )
    );
END
$function$;
