-- Give a partition of a port back, so that another process may claim it at once.
-- is: definer
CREATE OR REPLACE FUNCTION {schema}.leave_port(of_port text, of_partition text, of_token bigint) RETURNS void
AS $function$
BEGIN
    PERFORM {schema}.permit('publish', ARRAY[]::integer[]);
    UPDATE {schema}.ports SET expires_at = clock_timestamp()
    WHERE port = of_port AND partition = of_partition AND token = of_token AND role = {schema}.caller();
END
$function$;
