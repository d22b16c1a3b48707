-- Return whether the caller sees the whole box: it is its owner. For views, which run as the caller.
-- is: stable, definer
CREATE OR REPLACE FUNCTION {schema}.sees_all() RETURNS boolean
AS $function$
BEGIN
    RETURN {schema}.is_owner();
END
$function$;
