-- Judging ahead is done in the transaction of whoever is about to take a group: so what isn't done leaves no trace in it.

-- Lock the next groups of a queue that have something to do, to judge them before they are asked for; none if somebody
-- does that already. What is judged could be judged again: where any are locked, nobody has to wait until it is on disk.
CREATE OR REPLACE FUNCTION {schema}.lock_ahead(
    of_queue integer, how_many integer, at_us bigint, from_rank bigint,
    OUT group_keys text[], OUT now_us bigint, OUT isolation text, OUT version bigint
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    now_us := coalesce(at_us, {schema}.now_us());
    isolation := current_setting('transaction_isolation');
    version := (SELECT max(change.version) FROM {schema}.changes AS change);
    group_keys := CASE
        WHEN pg_try_advisory_xact_lock(hashtextextended('seriatim judging ' || of_queue, '{schema}'::regnamespace::oid::bigint))
        THEN {schema}.lock_next(of_queue, how_many, now_us, from_rank)
        ELSE ARRAY[]::text[]
    END;
    IF cardinality(group_keys) > 0 THEN
        PERFORM set_config('synchronous_commit', 'off', TRUE);
    END IF;
END
$function$;

-- Call whoever waits for a message of one of these queues: at most so many, each once. Who waits for a group of its own
-- may be called for another's, and passes the call on to one who waited then, too: so each is told who was the newest. 0
-- among the queues stands for what isn't routed yet: that calls one who routes, wherever he waits. A receiver that was
-- killed while it waited can't be called: another one is, in its place.
CREATE OR REPLACE FUNCTION {schema}.call_waiters(of_queues integer[], how_many bigint) RETURNS void
LANGUAGE plpgsql
SET enable_seqscan = off
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

-- Is the connection still there that waits on a channel?
CREATE FUNCTION {schema}.is_there(waiting_on text) RETURNS boolean
LANGUAGE plpgsql
AS $function$
BEGIN
    RETURN EXISTS (SELECT FROM pg_stat_get_activity(substr(waiting_on, length('seriatim_') + 1)::integer));
END
$function$;
