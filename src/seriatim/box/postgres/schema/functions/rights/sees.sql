-- Return the queues that the caller has a right for; all of them if it is the owner. The views below show these.
-- is: stable, definer
CREATE OR REPLACE FUNCTION {schema}.sees(what text) RETURNS integer[]
AS $function$
BEGIN
    IF {schema}.is_owner() THEN
        RETURN ARRAY(SELECT queue_id FROM {schema}.queues);
    END IF;
    RETURN {schema}.permitted(what);
END
$function$;
