-- Fail dialogs, as `fail_dialogs` does, for messages that a turn has put into an incomplete batch: they, and all later
-- ones of their dialogs, are taken out of it.
-- is: generic plan, no seqscan
CREATE OR REPLACE FUNCTION {schema}.fail_in_batch(
    of_queue integer, in_batch bigint, handles uuid[], message_ids text[], sequences bigint[], whys text[]
) RETURNS bigint[]
AS $function$
BEGIN
    UPDATE {schema}.entries AS entry SET status = 'queued', batch = NULL
    FROM unnest(handles, sequences) AS one (handle, sequence)
    JOIN {schema}.endpoints AS known USING (handle), {schema}.spool AS stored
    WHERE entry.queue_id = of_queue AND entry.batch = in_batch AND entry.group_key = known.group_id::text
        AND stored.arrival_id = entry.arrival_id AND stored.position = entry.position
        AND stored.context -> 'dialog' ->> 'handle' = one.handle::text
        AND (stored.context -> 'dialog' ->> 'sequence')::bigint >= one.sequence;
    RETURN {schema}.fail_dialogs(handles, message_ids, sequences, whys);
END
$function$;
