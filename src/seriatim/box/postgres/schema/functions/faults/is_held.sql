-- Return whether a lease is still its worker's. Locks nothing.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.is_held(of_queue integer, of_token bigint) RETURNS boolean
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    RETURN EXISTS (
        SELECT FROM {schema}.leases
        WHERE token = of_token AND queue_id = of_queue AND expires_at > clock_timestamp()
    );
END
$function$;
