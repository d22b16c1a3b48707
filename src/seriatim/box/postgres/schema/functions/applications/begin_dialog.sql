-- Begin a dialog, within the caller's transaction: for triggers, procedures and other languages.
-- is: definer
CREATE OR REPLACE FUNCTION {schema}.begin_dialog(
    from_service text, to_service text, contract text DEFAULT 'DEFAULT', lifetime interval DEFAULT NULL,
    related_to uuid DEFAULT NULL, in_group uuid DEFAULT NULL, priority integer DEFAULT 5, handle uuid DEFAULT NULL
) RETURNS uuid
AS $function$
DECLARE
    done record;
BEGIN
    done := {schema}.try_begin(
        from_service, ARRAY[to_service], contract, lifetime, related_to, in_group, priority, FALSE, FALSE, handle
    );
    PERFORM {schema}.refuse(done.refused, done.what, done.remedy);
    RETURN done.handle;
END
$function$;
