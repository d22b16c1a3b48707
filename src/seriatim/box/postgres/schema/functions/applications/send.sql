-- Send a message in a dialog, within the caller's transaction: for triggers, procedures and other languages.
-- is: definer
CREATE OR REPLACE FUNCTION {schema}.send(
    handle uuid, type text, body bytea DEFAULT '', content_type text DEFAULT NULL
) RETURNS void
AS $function$
DECLARE
    done record;
BEGIN
    done := {schema}.try_send_run(handle, type, ARRAY[content_type], ARRAY[body]);
    PERFORM {schema}.refuse(done.refused, done.what, done.remedy);
END
$function$;
