-- Obey what has come for sides, some at most; those that others have locked are skipped. Return how many.
-- is: generic plan, no seqscan
CREATE OR REPLACE FUNCTION {schema}.obey_waiting(at_most integer) RETURNS integer
AS $function$
DECLARE
    one record;
    done integer := 0;
BEGIN
    FOR one IN
        SELECT known.conversation_id, known.to_initiator FROM {schema}.dialog_inbox AS known
        GROUP BY 1, 2 ORDER BY min(known.inbox_id) LIMIT at_most
    LOOP
        CONTINUE WHEN NOT pg_try_advisory_xact_lock(
            {schema}.group_lock(0, {schema}.dialog_key(one.conversation_id, one.to_initiator))
        );
        CONTINUE WHEN EXISTS (
            SELECT FROM {schema}.endpoints AS own
            WHERE own.conversation_id = one.conversation_id AND own.is_initiator = one.to_initiator
                AND NOT pg_try_advisory_xact_lock({schema}.group_lock(own.queue_id, own.group_id::text))
        );
        PERFORM {schema}.obey(one.conversation_id, one.to_initiator);
        done := done + 1;
    END LOOP;
    RETURN done;
END
$function$;
