-- Return whether the connection that waits on a channel still exists.
CREATE OR REPLACE FUNCTION {schema}.is_there(waiting_on text) RETURNS boolean
AS $function$
BEGIN
    RETURN EXISTS (SELECT FROM pg_stat_get_activity(substr(waiting_on, length('seriatim_') + 1)::integer));
END
$function$;
