-- End an instance: nothing leads to it any more. FALSE if it isn't in the state that the caller knows.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.end_instance(
    of_instance bigint, of_queue integer, known_version bigint
) RETURNS boolean
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    DELETE FROM {schema}.known_instances
    WHERE instance_id = of_instance AND queue_id = of_queue AND version = known_version;
    RETURN FOUND;
END
$function$;
