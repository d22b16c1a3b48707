-- See 0053. A message that was postponed can be handed out at once, too, and in a queue without a gate.
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
