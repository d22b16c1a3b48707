-- Take a lock until the transaction ends; mostly it is free.
CREATE OR REPLACE FUNCTION {schema}.take_lock(key bigint, of_what text) RETURNS boolean
AS $function$
BEGIN
    RETURN pg_try_advisory_xact_lock(key) OR {schema}.wait_for_lock(key, FALSE, of_what);
END
$function$;
