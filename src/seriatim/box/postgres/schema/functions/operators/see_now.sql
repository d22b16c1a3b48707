-- Let messages of a queue be handed out at once. The caller has the lock of their group.
-- is: definer
CREATE OR REPLACE FUNCTION {schema}.see_now(of_queue integer, of_entries bigint[]) RETURNS void
AS $function$
BEGIN
    PERFORM {schema}.permit_entries('operate', of_queue, of_entries);
    UPDATE {schema}.entries AS entry SET visible_at = NULL
    WHERE entry.entry_id = ANY (of_entries) AND entry.queue_id = of_queue AND entry.visible_at IS NOT NULL;
END
$function$;
