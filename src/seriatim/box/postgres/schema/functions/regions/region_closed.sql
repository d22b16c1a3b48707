-- Return the sessions, among these, that take no messages any more, each with the key before which none does.
-- is: stable, own path
CREATE OR REPLACE FUNCTION {schema}.region_closed(
    of_queues integer[], of_sessions text[], OUT session text, OUT closed_before text
) RETURNS SETOF record
AS $function$
#variable_conflict use_column
BEGIN
    RETURN QUERY
        SELECT given.session, regional.closed_before
        FROM unnest(of_queues, of_sessions) AS given (queue_id, session)
        JOIN {schema}.region_queues AS regional USING (queue_id)
        WHERE given.session < regional.closed_before;
END
$function$;
