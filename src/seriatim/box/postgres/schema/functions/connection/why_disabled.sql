-- Return why the box is disabled; NULL: it isn't. Each role with a right in the box may ask.
-- is: stable, definer
CREATE OR REPLACE FUNCTION {schema}.why_disabled() RETURNS text
AS $function$
BEGIN
    PERFORM {schema}.permit_anything();
    RETURN {schema}.disabled_because();
END
$function$;
