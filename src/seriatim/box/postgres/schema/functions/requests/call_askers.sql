-- At the commit, notify the processes that wait for replies. They are registered under the queue -1, and look for all their
-- requests at once.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.call_askers() RETURNS trigger
AS $function$
DECLARE
    called text;
BEGIN
    FOR called IN
        DELETE FROM {schema}.waiters WHERE waiter_id IN (
            SELECT waiter_id FROM {schema}.waiters WHERE queue_id = -1 FOR UPDATE SKIP LOCKED
        ) RETURNING channel
    LOOP
        PERFORM pg_notify(called, '');
    END LOOP;
    RETURN NULL;
END
$function$;
