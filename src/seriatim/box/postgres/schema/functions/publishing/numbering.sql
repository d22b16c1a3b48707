-- As in 0052: the queues among these whose entries get a number at the commit; NULL: none. Either a place, or their sequence.
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
