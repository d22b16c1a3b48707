-- Lock the messages of a lease, and check that it exists: its group first, in the usual order, and then its row. That
-- lock excludes all others until the transaction ends, though the lease may run out before. Return no row, or FALSE
-- in `held`, if it isn't the caller's any more.
-- is: no seqscan
CREATE OR REPLACE FUNCTION {schema}.hold_lease(
    of_queue integer, of_token bigint, patience_ms integer, OUT held boolean, OUT of_group text, OUT left_ids bigint[]
)
AS $function$
DECLARE
    before text := current_setting('lock_timeout');
BEGIN
    SELECT group_key INTO of_group FROM {schema}.leases WHERE token = of_token AND queue_id = of_queue;
    PERFORM set_config('lock_timeout', patience_ms::text, TRUE);
    IF of_group IS NOT NULL THEN
        PERFORM pg_advisory_xact_lock({schema}.group_lock(of_queue, of_group));
    END IF;
    SELECT expires_at > clock_timestamp(), entry_ids INTO held, left_ids
    FROM {schema}.leases WHERE token = of_token AND queue_id = of_queue FOR UPDATE;
    PERFORM set_config('lock_timeout', before, TRUE);
EXCEPTION WHEN lock_not_available THEN
    held := NULL;
END
$function$;
