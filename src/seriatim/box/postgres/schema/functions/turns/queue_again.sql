-- Queue unprocessed messages again that the caller was handed, and make their group ready.
CREATE OR REPLACE FUNCTION {schema}.queue_again(
    of_queue integer, of_group text, entry_ids bigint[], ordinals bigint[], lates boolean[]
) RETURNS void
AS $function$
BEGIN
    UPDATE {schema}.entries AS entry SET status = 'queued', ordinal = handed.ordinal, late = handed.late
    FROM unnest(entry_ids, ordinals, lates) AS handed (entry_id, ordinal, late)
    WHERE entry.entry_id = ANY (ARRAY[handed.entry_id]);
    -- If the turn was lost, another process may have finished all of it meanwhile.
    UPDATE {schema}.known_groups AS known
    SET ready_rank = coalesce(
        (SELECT min(rank) FROM {schema}.entries WHERE entry_id = ANY (entry_ids)), known.ready_rank
    )
    WHERE known.queue_id = of_queue AND known.group_key = of_group;
END
$function$;
