-- Return the queues from which programs received in SQL while nobody judged, since a judge was there.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.asked_in_vain() RETURNS text[]
AS $function$
BEGIN
    PERFORM {schema}.permit_anything();
    RETURN ARRAY(
        SELECT place.queue FROM {schema}.unjudged AS one JOIN {schema}.queues AS place USING (queue_id) ORDER BY one.since
    );
END
$function$;
