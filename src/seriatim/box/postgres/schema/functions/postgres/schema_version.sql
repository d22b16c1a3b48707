-- Return the version of the schema.
-- is: stable, definer
CREATE OR REPLACE FUNCTION {schema}.schema_version() RETURNS integer
AS $function$
BEGIN
    PERFORM {schema}.permit_anything();
    RETURN (SELECT max(number) FROM {schema}.migrations);
END
$function$;
