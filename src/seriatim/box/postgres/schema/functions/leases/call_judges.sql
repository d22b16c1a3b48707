-- Wake the processes that judge, for a queue, when the transaction commits.
CREATE OR REPLACE FUNCTION {schema}.call_judges(of_queue integer) RETURNS void
AS $function$
BEGIN
    PERFORM pg_notify('seriatim_judges_{schema_name}', of_queue::text);
END
$function$;
