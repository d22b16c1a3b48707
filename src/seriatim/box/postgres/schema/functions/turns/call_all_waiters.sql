-- Notify all receivers that wait for a message of some queues.
-- is: definer
CREATE OR REPLACE FUNCTION {schema}.call_all_waiters(of_queues integer[]) RETURNS void
AS $function$
DECLARE
    called text;
BEGIN
    PERFORM {schema}.permit('judge', of_queues);
    FOR called IN
        DELETE FROM {schema}.waiters WHERE waiter_id IN (
            SELECT waiter_id FROM {schema}.waiters WHERE queue_id = ANY (of_queues) FOR UPDATE SKIP LOCKED
        ) RETURNING channel
    LOOP
        PERFORM pg_notify(called, '');
    END LOOP;
END
$function$;
