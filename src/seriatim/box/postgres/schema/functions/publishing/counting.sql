-- Return the queues, among these, that count their messages by group: they are unordered, and have a gate; NULL: none.
-- is: stable, no seqscan
CREATE OR REPLACE FUNCTION {schema}.counting(of_queues integer[]) RETURNS integer[]
AS $function$
BEGIN
    RETURN (
        SELECT array_agg(known.queue_id) FROM {schema}.queues AS known
        WHERE known.queue_id = ANY (of_queues) AND known.definition #>> '{policy,name}' = 'unordered'
            AND known.definition ->> 'gate' IS NOT NULL
    );
END
$function$;
