-- Record which messages of one group were put back, a row for each; return, by their entries, the numbers of the rows
-- and the present state of each. `why` and `since` are of the row in `aside`, which is gone now.
-- is: definer
CREATE OR REPLACE FUNCTION {schema}.log_requeue(
    its_actor text, its_reason text, of_queue integer, of_group text, of_entries bigint[], its_dispositions text[],
    its_places text[], its_reasons text[], aside_times timestamptz[]
)
RETURNS TABLE (operation_id bigint, entry_id bigint, place text, status text)
AS $function$
#variable_conflict use_column
DECLARE
    its_queue text := (SELECT known.queue FROM {schema}.queues AS known WHERE known.queue_id = of_queue);
BEGIN
    PERFORM {schema}.permit('operate', ARRAY[of_queue]);
    RETURN QUERY
    WITH moved AS (
        SELECT
            goes.*, coalesce(entry.status, refused.disposition) AS now,
            coalesce(entry.arrival_id, refused.arrival_id) AS arrival_id,
            coalesce(entry.position, refused.position) AS position
        FROM unnest(
            of_entries, its_dispositions, its_places, its_reasons, aside_times
        ) WITH ORDINALITY AS goes (entry_id, status, place, why, since, nth)
        LEFT JOIN {schema}.entries AS entry ON entry.entry_id = goes.entry_id AND entry.queue_id = of_queue
        LEFT JOIN {schema}.aside AS refused ON refused.entry_id = goes.entry_id AND refused.queue_id = of_queue
    ), logged AS (
        INSERT INTO {schema}.operator_log (actor, action, queue, group_key, reason, details)
        SELECT
            its_actor, 'requeue', its_queue, of_group, its_reason,
            jsonb_build_object(
                'entry_id', moved.entry_id, 'message_id', stored.message_id, 'status', moved.status, 'place',
                moved.place,
                'why', moved.why, 'since', moved.since
            )
        FROM moved JOIN {schema}.spool AS stored USING (arrival_id, position)
        ORDER BY moved.nth
        RETURNING operation_id, (details ->> 'entry_id')::bigint AS entry_id
    )
    SELECT logged.operation_id, moved.entry_id, moved.place, moved.now
    FROM logged JOIN moved USING (entry_id)
    ORDER BY moved.nth;
END
$function$;
