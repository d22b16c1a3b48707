-- Return the requests for the groups of a turn, in order: those that operators made while these were locked, and looks.
-- `place` counts the groups from 0. The caller has locked the groups.
-- is: definer, generic plan, no seqscan, no bitmapscan
CREATE OR REPLACE FUNCTION {schema}.turn_requests(of_queue integer, of_groups text[])
RETURNS TABLE (place integer, request_id bigint, action text)
AS $function$
#variable_conflict use_column
BEGIN
    PERFORM {schema}.permit('judge', ARRAY[of_queue]);
    RETURN QUERY
    SELECT wanted.place::integer - 1, request.request_id, request.action
    FROM unnest(of_groups) WITH ORDINALITY AS wanted (group_key, place)
    CROSS JOIN LATERAL (
        -- Looked up by group, whatever the planner takes for their number: there may be a look for each group of a queue.
        SELECT one.request_id, one.action FROM {schema}.requests AS one
        WHERE one.queue_id = of_queue AND one.group_key = wanted.group_key
        OFFSET 0
    ) AS request
    ORDER BY request.request_id;
END
$function$;
