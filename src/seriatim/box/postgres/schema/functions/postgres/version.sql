-- Return the version of the definitions.
-- is: stable, definer
CREATE OR REPLACE FUNCTION {schema}.version() RETURNS bigint
AS $function$
BEGIN
    PERFORM {schema}.permit_anything();
    RETURN (SELECT max(change.version) FROM {schema}.changes AS change);
END
$function$;
