-- Set waiting messages aside as dead in a queue without groups. Return the entries of those that were set aside;
-- messages that a receiver has in hand are left out.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.take_out(of_queue integer, of_entries bigint[], why text) RETURNS bigint[]
AS $function$
DECLARE
    free bigint[];
BEGIN
    PERFORM {schema}.permit('operate', ARRAY[of_queue]);
    free := ARRAY(
        SELECT entry.entry_id FROM {schema}.entries AS entry
        WHERE entry.entry_id = ANY (of_entries) AND entry.queue_id = of_queue AND entry.status IN ('arrived', 'faulted')
            AND entry.visible_at IS DISTINCT FROM 'infinity' -- which is in a lease
        FOR UPDATE SKIP LOCKED
    );
    WITH gone AS (
        DELETE FROM {schema}.entries AS entry WHERE entry.entry_id = ANY (free) RETURNING entry.*
    )
    {set_aside_dead(gone, ordinal)};
    RETURN free;
END
$function$;
