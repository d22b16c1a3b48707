-- A message on the way to a gate is put back: its place is open again, if the gate hasn't passed it.

-- The places of messages that were set aside on the way; those that have none are left out.
CREATE FUNCTION {schema}.aside_places(of_queue integer, of_entries bigint[])
RETURNS TABLE (entry_id bigint, origin_group text, origin_number bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
BEGIN
    PERFORM {schema}.permit('operate', ARRAY[of_queue]);
    RETURN QUERY
    SELECT one.entry_id, coalesce(way.origin_group, one.group_key), coalesce(way.origin_number, one.ordinal)
    FROM {schema}.aside AS one
    JOIN {schema}.spool AS stored USING (arrival_id, position)
    CROSS JOIN LATERAL {schema}.place_at_gate(one.queue_id, stored.context) AS way
    WHERE one.queue_id = of_queue AND one.entry_id = ANY (of_entries) AND way.gate_id <> one.queue_id
        AND coalesce(way.origin_number, one.ordinal) IS NOT NULL;
END
$function$;

-- Which of these numbers hasn't a gate's group passed? Answers with the first of them. The caller has locked the group.
CREATE FUNCTION {schema}.next_at_gate(of_gate integer, of_group text) RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_gate]);
    RETURN coalesce((
        SELECT known.next FROM {schema}.known_groups AS known
        WHERE known.queue_id = of_gate AND known.group_key = of_group
    ), 1);
END
$function$;

-- Places are open again: results that waited there as those of closed places wait for them to be closed once more. The caller has
-- locked the group.
CREATE FUNCTION {schema}.reopen_places(of_gate integer, of_group text, numbers bigint[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    again bigint;
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_gate]);
    UPDATE {schema}.entries AS entry SET
        status = 'placed', arrival = NULL, gate_id = of_gate, origin_number = entry.sequence
    WHERE entry.queue_id = of_gate AND entry.group_key = of_group AND entry.status = 'held' AND NOT entry.late
        AND entry.sequence = ANY (numbers);
    GET DIAGNOSTICS again = ROW_COUNT;
    UPDATE {schema}.known_groups AS known SET arrivals = known.arrivals - again
    WHERE known.queue_id = of_gate AND known.group_key = of_group AND again > 0;
END
$function$;
