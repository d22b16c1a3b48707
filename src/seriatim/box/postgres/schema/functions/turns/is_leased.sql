-- Return whether a worker has this group in a lease, even an expired one. The process that counts its attempt removes
-- it.
CREATE OR REPLACE FUNCTION {schema}.is_leased(of_queue integer, of_group text) RETURNS boolean
AS $function$
BEGIN
    RETURN EXISTS (SELECT FROM {schema}.leases WHERE queue_id = of_queue AND group_key = of_group);
END
$function$;
