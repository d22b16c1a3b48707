-- Return the facts that decide where messages of one group go that were set aside: their numbers, and how many of
-- those released after each still exist and weren't delivered; in the order in which they go. A group that was
-- forgotten since, alone or with others of its queue, has given its ordinals anew; a missing group counts as new. A
-- gate's group is forgotten with that of the origin queue, and written down there.
-- Messages that aren't set aside any more are left out. Their rows are locked, under the lock of their group.
-- `reason` and `aside_at`: why and when each was set aside, for the record of its requeue.
-- is: definer
CREATE OR REPLACE FUNCTION {schema}.requeue_facts(
    of_queue integer, of_group text, of_entries bigint[], its_dispositions text[]
)
RETURNS TABLE (
    entry_id bigint, disposition text, sequence bigint, ordinal bigint, following bigint, last_ordinal bigint,
    undelivered bigint, forgotten boolean, is_known boolean, reason text, aside_at timestamptz, meaning bigint[],
    remembered bytea
)
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
            WHERE log.queue IN (place.queue, (
                SELECT way.origin FROM {schema}.ways AS way
                WHERE way.queue_id = place.queue_id AND way.gate_id = place.queue_id
            )) AND (log.group_key = one.group_key OR log.group_key IS NULL)
                AND log.action = 'forget' AND log.at >= one.aside_at
        ) AS forgotten,
        known.group_key IS NOT NULL AS is_known,
        one.reason,
        one.aside_at,
        one.meaning,
        known.remembered
    FROM {schema}.aside AS one
    JOIN {schema}.queues AS place USING (queue_id)
    LEFT JOIN {schema}.known_groups AS known ON known.queue_id = one.queue_id AND known.group_key = one.group_key
    WHERE one.entry_id = ANY (of_entries) AND one.queue_id = of_queue AND one.group_key = of_group
        AND one.disposition = ANY (its_dispositions)
    ORDER BY one.ordinal NULLS LAST, one.sequence, one.meaning[5:], one.entry_id
    FOR UPDATE OF one;
END
$function$;
