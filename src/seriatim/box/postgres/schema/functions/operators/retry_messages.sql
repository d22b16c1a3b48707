-- Hand messages of an `Unordered` queue out again from now on: those that are faulted, wait for their next attempt, or
-- were postponed. Return their entries; messages that are none of these, or that another process has in hand, are left
-- out.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.retry_messages(of_queue integer, of_entries bigint[]) RETURNS bigint[]
AS $function$
DECLARE
    free bigint[];
BEGIN
    PERFORM {schema}.permit('operate', ARRAY[of_queue]);
    free := ARRAY(
        SELECT entry.entry_id FROM {schema}.entries AS entry
        WHERE entry.entry_id = ANY (of_entries) AND entry.queue_id = of_queue AND (
            entry.status = 'faulted' OR entry.status = 'arrived'
                AND (entry.attempt > 0 OR entry.postponed_until = entry.visible_at)
                AND entry.visible_at > clock_timestamp() AND entry.visible_at < 'infinity'
        )
        FOR UPDATE SKIP LOCKED
    );
    UPDATE {schema}.entries AS entry SET status = 'arrived', visible_at = NULL WHERE entry.entry_id = ANY (free);
    RETURN free;
END
$function$;
