-- Mark messages as faulted by themselves: their handler failed for good.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.fault_messages(of_queue integer, of_entries bigint[]) RETURNS void
AS $function$
BEGIN
    PERFORM {schema}.permit_entries('receive', of_queue, of_entries);
    UPDATE {schema}.entries AS entry SET status = 'faulted', visible_at = NULL
    WHERE entry.entry_id = ANY (of_entries) AND entry.queue_id = of_queue AND entry.status = 'arrived';
END
$function$;
