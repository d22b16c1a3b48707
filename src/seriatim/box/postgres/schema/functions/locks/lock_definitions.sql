-- Let one transaction at a time change what is defined.
-- is: definer
CREATE OR REPLACE FUNCTION {schema}.lock_definitions() RETURNS void
AS $function$
BEGIN
    PERFORM {schema}.permit('subscribe', ARRAY[]::integer[]);
    PERFORM {schema}.take_lock({schema}.lock_of('definitions'), 'the definitions');
END
$function$;
