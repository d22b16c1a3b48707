-- Notify receivers that wait for a message of one of these queues: at most a number of them, each once. A receiver of
-- one group may be notified for another's message, and passes that on to a receiver that waited then, too: so each
-- gets the number of the newest. 0 among the queues stands for messages that aren't routed yet: this wakes one
-- receiver that may route, on whatever queue it waits. A receiver that was killed while it waited can't be notified:
-- another one is, in its place.
-- is: no seqscan
CREATE OR REPLACE FUNCTION {schema}.call_waiters(of_queues integer[], how_many bigint) RETURNS void
AS $function$
DECLARE
    called text;
    newest text;
    left_over bigint := how_many;
    found_some boolean := TRUE;
BEGIN
    IF NOT EXISTS (SELECT FROM {schema}.waiters) THEN
        RETURN;
    END IF;
    newest := (SELECT last_value FROM {schema}.waiters_waiter_id_seq);
    WHILE left_over > 0 AND found_some LOOP
        found_some := FALSE;
        FOR called IN
            DELETE FROM {schema}.waiters WHERE waiter_id IN (
                SELECT waiter_id FROM {schema}.waiters
                WHERE queue_id = ANY (of_queues) ORDER BY waiter_id LIMIT left_over FOR UPDATE SKIP LOCKED
            ) RETURNING channel
        LOOP
            found_some := TRUE;
            CONTINUE WHEN NOT {schema}.is_there(called);
            PERFORM pg_notify(called, newest);
            left_over := left_over - 1;
        END LOOP;
    END LOOP;
    WHILE 0 = ANY (of_queues) LOOP
        DELETE FROM {schema}.waiters WHERE waiter_id = (
            SELECT waiter_id FROM {schema}.waiters WHERE routes ORDER BY waiter_id LIMIT 1 FOR UPDATE SKIP LOCKED
        ) RETURNING channel INTO called;
        EXIT WHEN NOT FOUND;
        IF {schema}.is_there(called) THEN
            PERFORM pg_notify(called, newest);
            EXIT;
        END IF;
    END LOOP;
END
$function$;
