-- Refuse a disabled box. An enabled one is noted in the session for good: no session changes its server.
CREATE OR REPLACE FUNCTION {schema}.check_enabled() RETURNS void
AS $function$
DECLARE
    why text := {schema}.disabled_because();
BEGIN
    IF why IS NOT NULL THEN
        RAISE EXCEPTION 'the message box is disabled: %', why USING
            ERRCODE = 'SQ003',
            HINT = 'if it was moved here, or the server upgraded: seriatim box enable; if this is a copy: seriatim box new-id';
    END IF;
    PERFORM set_config('seriatim.enabled_{schema_name}', 'yes', FALSE);
END
$function$;
