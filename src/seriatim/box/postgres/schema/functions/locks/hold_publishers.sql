-- Wait until no uncommitted publisher uses the definitions to be removed; and let none begin until this transaction
-- ends. FALSE if that took too long: then publishers go on.
CREATE OR REPLACE FUNCTION {schema}.hold_publishers(patience_ms integer) RETURNS boolean
AS $function$
DECLARE
    before text := current_setting('lock_timeout');
BEGIN
    PERFORM set_config('lock_timeout', patience_ms::text, TRUE);
    PERFORM pg_advisory_xact_lock({schema}.lock_of('publishers'));
    PERFORM set_config('lock_timeout', before, TRUE);
    RETURN TRUE;
EXCEPTION WHEN lock_not_available THEN
    RETURN FALSE;
END
$function$;
