-- Return whether an id space is that of the caller, or a part of it.
-- is: definer, stable
CREATE OR REPLACE FUNCTION {schema}.is_own_space(space text) RETURNS boolean
AS $function$
DECLARE
    own text := {schema}.id_space();
BEGIN
    RETURN space = own OR starts_with(space, own || '/');
END
$function$;
