-- A place that is closed by force while something of it is on the way is on record, also if results of it are there already.

-- The places of a gate's groups, up to these numbers (NULL: none), of which something is on the way; by group (from 0) and number.
CREATE FUNCTION {schema}.places_under_way(of_gate integer, of_groups text[], through bigint[])
RETURNS TABLE (place integer, number bigint)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $function$
#variable_conflict use_column
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_gate]);
    RETURN QUERY
    SELECT asked.at::integer - 1, its.number
    FROM unnest(of_groups, through) WITH ORDINALITY AS asked (group_key, last, at)
    CROSS JOIN LATERAL (
        SELECT DISTINCT coalesce(entry.origin_number, entry.ordinal) AS number FROM {schema}.entries AS entry
        WHERE entry.gate_id = of_gate AND entry.gate_id <> entry.queue_id
            AND coalesce(entry.origin_group, entry.group_key) = asked.group_key
            AND coalesce(entry.origin_number, entry.ordinal) >= coalesce((
                SELECT known.next FROM {schema}.known_groups AS known
                WHERE known.queue_id = of_gate AND known.group_key = asked.group_key
            ), 1)
            AND coalesce(entry.origin_number, entry.ordinal) <= asked.last
    ) AS its
    ORDER BY asked.at, its.number;
END
$function$;
