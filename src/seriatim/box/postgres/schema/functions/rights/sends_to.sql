-- Return the services of other boxes to which the caller may send; if it is the owner, those that are declared.
-- is: stable, definer
CREATE OR REPLACE FUNCTION {schema}.sends_to() RETURNS text[]
AS $function$
BEGIN
    IF {schema}.is_owner() THEN
        RETURN ARRAY(SELECT known.service FROM {schema}.known_services AS known WHERE known.queue_id IS NULL);
    END IF;
    RETURN ARRAY(
        SELECT DISTINCT given.service FROM {schema}.grants AS given
        WHERE given.may = 'send' AND pg_has_role({schema}.caller(), given.role::oid, 'USAGE')
    );
END
$function$;
