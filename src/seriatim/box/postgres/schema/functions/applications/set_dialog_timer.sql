-- Set a dialog's timer, or remove it with NULL, within the caller's transaction: for triggers, procedures and other
-- languages.
-- is: definer
CREATE OR REPLACE FUNCTION {schema}.set_dialog_timer(handle uuid, delay interval) RETURNS void
AS $function$
DECLARE
    done record;
BEGIN
    done := {schema}.try_set_timer(handle, delay);
    PERFORM {schema}.refuse(done.refused, done.what, done.remedy);
END
$function$;
