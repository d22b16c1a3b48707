-- A process judges no more.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.forget_judge(of_process uuid) RETURNS void
AS $function$
BEGIN
    PERFORM {schema}.permit_anything();
    DELETE FROM {schema}.judges AS known
    WHERE known.process_id = of_process AND (known.role = {schema}.caller() OR {schema}.is_owner());
END
$function$;
