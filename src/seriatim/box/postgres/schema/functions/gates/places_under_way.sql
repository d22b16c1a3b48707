-- Return the places of a gate's groups, up to these numbers (NULL: none), with messages on the way; by group (from 0)
-- and number.
-- is: definer, generic plan, no seqscan, no bitmapscan
CREATE OR REPLACE FUNCTION {schema}.places_under_way(of_gate integer, of_groups text[], through bigint[])
RETURNS TABLE (place integer, number bigint)
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
