-- Return the applied migrations, with their checksums.
-- is: stable, definer
CREATE OR REPLACE FUNCTION {schema}.applied_migrations() RETURNS TABLE (number integer, checksum text)
AS $function$
BEGIN
    PERFORM {schema}.permit_anything();
    RETURN QUERY SELECT one.number, one.checksum FROM {schema}.migrations AS one ORDER BY one.number;
END
$function$;
