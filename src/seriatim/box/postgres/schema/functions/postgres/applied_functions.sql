-- Return the sets of functions and views that the box has had, in order, each with its checksum and its names.
-- is: stable, definer
CREATE OR REPLACE FUNCTION {schema}.applied_functions() RETURNS TABLE (checksum text, names text[])
AS $function$
BEGIN
    PERFORM {schema}.permit_anything();
    RETURN QUERY SELECT one.checksum, one.names FROM {schema}.function_sets AS one ORDER BY one.set_id;
END
$function$;
