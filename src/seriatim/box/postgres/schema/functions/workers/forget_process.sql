-- Remove a process that has ended, or that was found dead: it works on no queue, and judges no more.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.forget_process(of_process uuid) RETURNS void
AS $function$
BEGIN
    PERFORM {schema}.permit_anything();
    DELETE FROM {schema}.known_workers AS known
    WHERE known.process_id = of_process AND (known.role = {schema}.caller() OR {schema}.is_owner());
    DELETE FROM {schema}.judges AS known
    WHERE known.process_id = of_process AND (known.role = {schema}.caller() OR {schema}.is_owner());
END
$function$;
