-- Return operators' requests for the groups of a turn while these were locked, in order; `place` counts the groups
-- from 0. The caller has locked the groups.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.turn_requests(of_queue integer, of_groups text[])
RETURNS TABLE (place integer, request_id bigint, action text)
AS $function$
#variable_conflict use_column
BEGIN
    PERFORM {schema}.permit('judge', ARRAY[of_queue]);
    RETURN QUERY
    SELECT array_position(of_groups, group_key) - 1 AS place, request_id, action
    FROM {schema}.requests
    WHERE queue_id = of_queue AND group_key = ANY (of_groups) AND action <> 'look'
    ORDER BY request_id;
END
$function$;
