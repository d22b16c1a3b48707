-- Take a lease away: its messages are where they were before. `expired`: only if it has run out. Return FALSE where
-- there is none, or its group isn't free within `patience_ms`.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.drop_lease(
    of_queue integer, of_token bigint, expired boolean, patience_ms integer
) RETURNS boolean
AS $function$
DECLARE
    lease record;
BEGIN
    PERFORM {schema}.permit('judge', ARRAY[of_queue]);
    SELECT * INTO lease FROM {schema}.hold_lease(of_queue, of_token, patience_ms);
    IF lease.held IS NULL OR expired AND lease.held THEN
        RETURN FALSE;
    END IF;
    DELETE FROM {schema}.leases WHERE token = of_token;
    IF lease.of_group IS NULL THEN
        UPDATE {schema}.entries SET visible_at = NULL WHERE entry_id = ANY (lease.left_ids) AND queue_id = of_queue;
    END IF;
    PERFORM {schema}.call_waiters(ARRAY[of_queue], 1);
    RETURN TRUE;
END
$function$;
