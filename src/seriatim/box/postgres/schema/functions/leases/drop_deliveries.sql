-- Note that deliveries have ended whose leases are gone, and forget those that ended an hour ago.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.drop_deliveries() RETURNS void
AS $function$
BEGIN
    PERFORM {schema}.permit_anything();
    UPDATE {schema}.deliveries AS one SET ended_at = clock_timestamp(), entry_ids = '{}', ordinals = '{}', lates = '{}'
    WHERE one.ended_at IS NULL AND NOT EXISTS (SELECT FROM {schema}.leases AS lease WHERE lease.token = one.token);
    DELETE FROM {schema}.deliveries WHERE ended_at < clock_timestamp() - interval '1 hour';
END
$function$;
