-- Lock a group for an operator, with a limited wait. A leased group belongs to its worker.
CREATE OR REPLACE FUNCTION {schema}.lock_patiently(of_queue integer, of_group text, patience_ms integer) RETURNS boolean
AS $function$
DECLARE
    before text := current_setting('lock_timeout');
BEGIN
    PERFORM set_config('lock_timeout', patience_ms::text, TRUE);
    PERFORM pg_advisory_xact_lock({schema}.group_lock(of_queue, of_group));
    PERFORM set_config('lock_timeout', before, TRUE);
    RETURN NOT {schema}.is_leased(of_queue, of_group);
EXCEPTION WHEN lock_not_available THEN
    RETURN FALSE;
END
$function$;
