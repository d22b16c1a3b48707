-- Return those of the queues that number their entries, by their places at a gate or by their tickets; NULL: none does.
-- is: stable, no seqscan
CREATE OR REPLACE FUNCTION {schema}.numbering(of_queues integer[]) RETURNS integer[]
AS $function$
BEGIN
    RETURN (
        SELECT array_agg(known.queue_id) FROM {schema}.queues AS known
        WHERE known.queue_id = ANY (of_queues) AND (
            known.definition #>> '{policy,name}' = 'unordered' AND known.definition ->> 'gate' IS NOT NULL
            OR known.definition #>> '{policy,name}' = 'standard' AND known.definition ->> 'sequence' = 'ticket'
        )
    );
END
$function$;
