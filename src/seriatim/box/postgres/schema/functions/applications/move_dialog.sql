-- Move a dialog to another conversation group, within the caller's transaction: for triggers, procedures and other
-- languages.
-- is: definer
CREATE OR REPLACE FUNCTION {schema}.move_dialog(handle uuid, to_group uuid) RETURNS void
AS $function$
DECLARE
    done record;
BEGIN
    done := {schema}.try_move(handle, to_group, ARRAY[]::text[]);
    PERFORM {schema}.refuse(done.refused, done.what, done.remedy);
END
$function$;
