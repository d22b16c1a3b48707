-- Return the places at a gate of messages that were set aside on the way; those without one are left out. `carried`:
-- the message carries its origin.
-- is: stable, definer
CREATE OR REPLACE FUNCTION {schema}.aside_places(of_queue integer, of_entries bigint[])
RETURNS TABLE (entry_id bigint, origin_group text, origin_number bigint, carried boolean)
AS $function$
#variable_conflict use_column
BEGIN
    PERFORM {schema}.permit('operate', ARRAY[of_queue]);
    RETURN QUERY
    SELECT
        one.entry_id, coalesce(way.origin_group, one.group_key), coalesce(way.origin_number, one.ordinal),
        way.origin_number IS NOT NULL
    FROM {schema}.aside AS one
    JOIN {schema}.spool AS stored USING (arrival_id, position)
    CROSS JOIN LATERAL {schema}.place_at_gate(one.queue_id, stored.context, TRUE) AS way
    WHERE one.queue_id = of_queue AND one.entry_id = ANY (of_entries) AND way.gate_id <> one.queue_id
        AND coalesce(way.origin_number, one.ordinal) IS NOT NULL;
END
$function$;
