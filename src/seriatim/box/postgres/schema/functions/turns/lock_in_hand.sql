-- Return whether the group of a delivery is the caller's, by the lock of this transaction or by a lease (`of_token`).
-- Its lock is held until the transaction ends.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.lock_in_hand(
    of_queue integer, of_group text, of_token bigint,
    OUT locked boolean, OUT now_us bigint, OUT isolation text, OUT version bigint
)
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    IF of_token IS NULL THEN
        locked := pg_try_advisory_xact_lock({schema}.group_lock(of_queue, of_group));
    ELSE
        locked := coalesce((
            SELECT lease.held AND lease.of_group = lock_in_hand.of_group
            FROM {schema}.hold_lease(of_queue, of_token, 10000) AS lease
        ), FALSE);
    END IF;
    now_us := {schema}.now_us();
    isolation := current_setting('transaction_isolation');
    version := (SELECT max(change.version) FROM {schema}.changes AS change);
END
$function$;
