-- Notify the next receiver of a queue after one that was notified and has no use for the message, up to the newest
-- receiver at that time: so a notification goes round once.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.pass_on(of_queue integer, waiter bigint, newest bigint) RETURNS void
AS $function$
DECLARE
    called text;
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    DELETE FROM {schema}.waiters WHERE waiter_id = (
        SELECT waiter_id FROM {schema}.waiters
        WHERE queue_id = of_queue AND waiter_id > waiter AND waiter_id <= newest
        ORDER BY waiter_id LIMIT 1 FOR UPDATE SKIP LOCKED
    ) RETURNING channel INTO called;
    IF FOUND THEN
        PERFORM pg_notify(called, newest::text);
    END IF;
END
$function$;
