-- Extend leases of a queue. Return those that still exist; an expired one stays expired.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.renew_leases(of_queue integer, tokens bigint[], period interval) RETURNS bigint[]
AS $function$
DECLARE
    kept bigint[];
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    WITH renewed AS (
        UPDATE {schema}.leases AS lease SET
            expires_at = clock_timestamp() + period, renewed_at = clock_timestamp()
        WHERE lease.token = ANY (tokens) AND lease.queue_id = of_queue AND lease.expires_at > clock_timestamp()
        RETURNING lease.token
    )
    SELECT coalesce(array_agg(renewed.token), '{}') INTO kept FROM renewed;
    RETURN kept;
END
$function$;
