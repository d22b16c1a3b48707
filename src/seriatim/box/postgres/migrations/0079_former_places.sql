-- The requeue of a message is written down with why and when it was set aside: its trace tells that afterwards.
DROP FUNCTION {schema}.requeue_facts(integer, text, bigint[], text[]);
DROP FUNCTION {schema}.log_requeue(text, text, integer, text, bigint[], text[], text[]);

-- What decides where messages of one group go that were set aside: their own numbers, and how many of those that were
-- released after each are still there and were not delivered; in the order in which they go. A group that was forgotten
-- since, alone or with others of its queue, has given its ordinals anew; one that is not there is as if it were new. What
-- isn't set aside like that any more is left out. Their rows are locked, under the lock of their group. `reason` and
-- `aside_at`: why and when each was set aside, which is written down with its requeue.
CREATE FUNCTION {schema}.requeue_facts(of_queue integer, of_group text, of_entries bigint[], its_dispositions text[])
RETURNS TABLE (
    entry_id bigint, disposition text, sequence bigint, ordinal bigint, following bigint, last_ordinal bigint,
    undelivered bigint, forgotten boolean, is_known boolean, reason text, aside_at timestamptz
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
BEGIN
    PERFORM {schema}.permit('operate', ARRAY[of_queue]);
    RETURN QUERY
    SELECT
        one.entry_id,
        one.disposition,
        one.sequence,
        one.ordinal,
        coalesce(known.next, 0) AS following,
        coalesce(known.ordinal, 0) AS last_ordinal,
        CASE WHEN one.ordinal IS NULL THEN 0 ELSE (
            SELECT count(*) FROM {schema}.entries AS other
            WHERE other.queue_id = one.queue_id AND other.group_key = one.group_key AND other.status = 'queued'
                AND other.ordinal > one.ordinal
        ) + (
            SELECT count(*) FROM {schema}.aside AS other
            WHERE other.queue_id = one.queue_id AND other.group_key = one.group_key AND other.disposition = 'dead'
                AND other.ordinal > one.ordinal
        ) END AS undelivered,
        EXISTS (
            SELECT FROM {schema}.operator_log AS log
            WHERE log.queue = place.queue AND (log.group_key = one.group_key OR log.group_key IS NULL)
                AND log.action = 'forget' AND log.at >= one.aside_at
        ) AS forgotten,
        known.group_key IS NOT NULL AS is_known,
        one.reason,
        one.aside_at
    FROM {schema}.aside AS one
    JOIN {schema}.queues AS place USING (queue_id)
    LEFT JOIN {schema}.known_groups AS known ON known.queue_id = one.queue_id AND known.group_key = one.group_key
    WHERE one.entry_id = ANY (of_entries) AND one.queue_id = of_queue AND one.group_key = of_group
        AND one.disposition = ANY (its_dispositions)
    ORDER BY one.ordinal NULLS LAST, one.sequence, one.entry_id
    FOR UPDATE OF one;
END
$function$;

-- Write down which messages of one group were put back, a row for each; answers, by their entries, with the numbers of the
-- rows and with what each is now. `why` and `since` are of the row in `aside`, which is gone now.
CREATE FUNCTION {schema}.log_requeue(
    its_actor text, its_reason text, of_queue integer, of_group text, of_entries bigint[], its_dispositions text[],
    its_places text[], its_reasons text[], aside_times timestamptz[]
)
RETURNS TABLE (operation_id bigint, entry_id bigint, place text, status text)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
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
            coalesce(entry.arrival_id, refused.arrival_id) AS arrival_id, coalesce(entry.position, refused.position) AS position
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
                'entry_id', moved.entry_id, 'message_id', stored.message_id, 'status', moved.status, 'place', moved.place,
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
