-- Return the group of a side, and its queue.
-- is: stable, definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.group_of(of_handle uuid, OUT queue text, OUT group_key text)
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY(
        SELECT known.queue_id FROM {schema}.endpoints AS known WHERE known.handle = of_handle
    ));
    SELECT place.queue, known.group_id::text INTO queue, group_key
    FROM {schema}.endpoints AS known JOIN {schema}.queues AS place USING (queue_id) WHERE known.handle = of_handle;
END
$function$;
