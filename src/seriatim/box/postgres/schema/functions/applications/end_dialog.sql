-- End a dialog, within the caller's transaction: for triggers, procedures and other languages.
-- is: definer
CREATE OR REPLACE FUNCTION {schema}.end_dialog(
    handle uuid, error_code integer DEFAULT NULL, error_text text DEFAULT NULL, cleanup boolean DEFAULT FALSE
) RETURNS void
AS $function$
DECLARE
    done record;
BEGIN
    done := {schema}.try_end(
        handle, CASE WHEN cleanup THEN 'clean up' WHEN error_code IS NOT NULL THEN 'end with error' ELSE 'end' END,
        error_code, error_text, ARRAY[]::text[]
    );
    PERFORM {schema}.refuse(done.refused, done.what, done.remedy);
END
$function$;
