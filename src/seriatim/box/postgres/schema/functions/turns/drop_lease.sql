-- Remove a lease: its messages are where they were before. `expired`: only if it has run out. Or remove the record of
-- a turn on trial. Return FALSE if there is none, or its group isn't free within `patience_ms`.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.drop_lease(
    of_queue integer, of_token bigint, expired boolean, patience_ms integer
) RETURNS boolean
AS $function$
DECLARE
    lease record;
    before text := current_setting('lock_timeout');
BEGIN
    PERFORM {schema}.permit('judge', ARRAY[of_queue]);
    SELECT trial.group_key, trial.entry_id INTO lease
    FROM {schema}.trials AS trial WHERE trial.queue_id = of_queue AND trial.token = of_token;
    IF FOUND THEN
        -- The lock of its messages comes first: a turn has that when it records its begin.
        PERFORM set_config('lock_timeout', patience_ms::text, TRUE);
        IF lease.group_key IS NULL THEN
            PERFORM FROM {schema}.entries AS entry WHERE entry.entry_id = lease.entry_id FOR UPDATE;
        ELSE
            PERFORM pg_advisory_xact_lock({schema}.group_lock(of_queue, lease.group_key));
        END IF;
        PERFORM set_config('lock_timeout', before, TRUE);
        UPDATE {schema}.trials AS trial SET token = NULL WHERE trial.queue_id = of_queue AND trial.token = of_token;
        RETURN FOUND;
    END IF;
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
EXCEPTION WHEN lock_not_available THEN
    RETURN FALSE;
END
$function$;
