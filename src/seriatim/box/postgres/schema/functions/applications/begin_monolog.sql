-- Begin one stream to several services.
-- is: definer
CREATE OR REPLACE FUNCTION {schema}.begin_monolog(
    from_service text, to_services text[], contract text DEFAULT 'DEFAULT', lifetime interval DEFAULT NULL,
    priority integer DEFAULT 5
) RETURNS uuid
AS $function$
DECLARE
    done record;
BEGIN
    done := {schema}.try_begin(
        from_service, to_services, contract, lifetime, NULL, NULL, priority, FALSE, TRUE, NULL
    );
    PERFORM {schema}.refuse(done.refused, done.what, done.remedy);
    RETURN done.handle;
END
$function$;
