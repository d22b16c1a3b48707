-- Obey what has come for sides, some at most; those that others have locked are skipped. Return how many. A side that
-- can't be obeyed notes why, stops no other one, and is tried again after a minute.
-- is: generic plan, no seqscan
CREATE OR REPLACE FUNCTION {schema}.obey_waiting(at_most integer) RETURNS integer
AS $function$
DECLARE
    one record;
    done integer := 0;
BEGIN
    FOR one IN
        SELECT known.conversation_id, known.to_initiator, min(known.inbox_id) AS first FROM {schema}.dialog_inbox AS known
        GROUP BY 1, 2
        HAVING coalesce(max(known.failed_at) < clock_timestamp() - interval '1 minute', TRUE) ORDER BY first
    LOOP
        EXIT WHEN done >= at_most;
        CONTINUE WHEN NOT pg_try_advisory_xact_lock(
            {schema}.group_lock(0, {schema}.dialog_key(one.conversation_id, one.to_initiator))
        );
        CONTINUE WHEN EXISTS (
            SELECT FROM {schema}.endpoints AS own
            WHERE own.conversation_id = one.conversation_id AND own.is_initiator = one.to_initiator
                AND NOT pg_try_advisory_xact_lock({schema}.group_lock(own.queue_id, own.group_id::text))
        );
        BEGIN
            PERFORM {schema}.obey(one.conversation_id, one.to_initiator);
        EXCEPTION WHEN OTHERS THEN
            IF SQLSTATE ~ '^(40|53|55|57|58)' THEN
                RAISE; -- the server's trouble, or another transaction's
            END IF;
            UPDATE {schema}.dialog_inbox AS known SET failed_at = clock_timestamp(), problem = SQLERRM
            WHERE known.inbox_id = one.first;
        END;
        done := done + 1;
    END LOOP;
    RETURN done;
END
$function$;
