-- Put a turn's released messages into a reader's next batch; the caller has locked the groups.
-- is: sql
CREATE OR REPLACE FUNCTION {schema}.put_in_batch(
    of_queue integer, in_batch bigint, entry_ids bigint[], ordinals bigint[], lates boolean[]
) RETURNS void
AS $function$
    UPDATE {schema}.entries AS entry SET
        status = 'in_hand', batch = in_batch, ordinal = handed.ordinal, late = handed.late
    FROM unnest(entry_ids, ordinals, lates) AS handed (entry_id, ordinal, late)
    -- Not by an index of the queue, which the planner takes for short: it would be read for each entry.
    WHERE entry.entry_id = ANY (ARRAY[handed.entry_id]) AND (entry.queue_id = of_queue) IS TRUE
$function$;
