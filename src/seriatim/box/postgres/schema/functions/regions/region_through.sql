-- Return the present highest numbers of sessions.
-- is: stable, own path, generic plan, no seqscan
CREATE OR REPLACE FUNCTION {schema}.region_through(
    of_queues integer[], of_sessions text[], OUT queue_id integer, OUT session text, OUT through bigint
) RETURNS SETOF record
AS $function$
#variable_conflict use_column
BEGIN
    RETURN QUERY
        SELECT known.queue_id, known.session, greatest(known.through, known.over_through)
        FROM unnest(of_queues, of_sessions) AS given (queue_id, session)
        JOIN {schema}.region_sessions AS known
            ON known.queue_id = ANY (ARRAY[given.queue_id]) AND known.session = ANY (ARRAY[given.session]);
END
$function$;
