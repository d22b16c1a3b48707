-- Set a message aside as dead whose instance has ended meanwhile, and that no activation can take. The caller has the
-- lock of its group, and the message in hand. `of_entry`: its entry, NULL: found by its id.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.set_stray_aside(
    of_queue integer, of_group text, of_message text, of_ordinal bigint, why text, of_entry bigint DEFAULT NULL
) RETURNS void
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    WITH gone AS (
        DELETE FROM {schema}.entries AS entry USING {schema}.spool AS stored
        WHERE entry.queue_id = of_queue AND entry.group_key = of_group
            AND stored.arrival_id = ANY (ARRAY[entry.arrival_id]) AND stored.position = ANY (ARRAY[entry.position])
            AND stored.message_id = of_message AND entry.entry_id = coalesce(of_entry, entry.entry_id)
        RETURNING entry.*
    )
    {set_aside_dead(gone, of_ordinal)};
END
$function$;
