-- Complete the messages of a delivery before a position, and count a failure at it, as of a worker's handler; the
-- delivery ends. The process that judges counts it, by the retries of the queue; until then nobody gets the group.
-- is: definer
CREATE OR REPLACE FUNCTION {schema}.fail(
    delivery uuid, at integer, kind text DEFAULT 'unexpected', error text DEFAULT '', retry_after interval DEFAULT NULL,
    holder text DEFAULT ''
) RETURNS jsonb
AS $function$
#variable_conflict use_variable
DECLARE
    wait_us bigint := extract(epoch FROM retry_after) * 1000000;
    told jsonb := jsonb_build_object('kind', kind, 'error', error, 'retry_after_us', wait_us);
    said text := md5(told::text);
    lease record;
BEGIN
    IF kind IS NULL OR kind <> ALL ('{transient,business,unexpected,bug,poison,timeout}') THEN
        RAISE EXCEPTION '"%" is no kind of failure', kind USING
            ERRCODE = 'invalid_parameter_value', HINT = 'transient, business, unexpected, bug, poison, timeout';
    ELSIF error IS NULL OR at IS NULL OR wait_us NOT BETWEEN 0 AND 864000000000000 THEN
        RAISE EXCEPTION 'the position, the error or the wait of a failure is missing, or out of range' USING
            ERRCODE = 'invalid_parameter_value', HINT = 'retry_after is from 0 s to 10000 days';
    END IF;
    lease := {schema}.at_lease(delivery, holder, 'fail', at, said);
    IF lease.answer IS NOT NULL THEN
        RETURN lease.answer;
    END IF;
    PERFORM {schema}.settle_through(
        lease.queue_id, lease.token, lease.incarnation, lease.entry_ids, lease.ordinals, lease.lates, lease.done, at - 1
    );
    UPDATE {schema}.leases SET told = told, expires_at = clock_timestamp() WHERE token = lease.token;
    PERFORM {schema}.call_judges(lease.queue_id);
    RETURN {schema}.note_answer(delivery, holder, 'fail', at, said, '{"then": "judged"}', at - 1, TRUE);
END
$function$;
