-- Return the sessions of a queue after one of them, in the order of their keys.
-- is: stable, own path, no seqscan
CREATE OR REPLACE FUNCTION {schema}.region_sessions_behind(
    of_name text, of_queue text, behind text, at_most integer, OUT session text, OUT through bigint,
    OUT over_through bigint
) RETURNS SETOF record
AS $function$
#variable_conflict use_column
DECLARE
    its_queue integer := {schema}.region_queue_id(of_name, of_queue);
BEGIN
    RETURN QUERY
        SELECT known.session, known.through, known.over_through
        FROM {schema}.region_sessions AS known
        WHERE known.queue_id = its_queue AND known.session > behind COLLATE "C"
        ORDER BY known.session
        LIMIT at_most;
END
$function$;
