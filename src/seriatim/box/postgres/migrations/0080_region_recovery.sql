-- What a box knows of the sessions of two regions, read in portions: a journal that went back in time learns from it.

-- The queues of a name, with the numbers of their sessions.
CREATE FUNCTION {schema}.region_session_counts(of_name text, OUT queue text, OUT sessions bigint) RETURNS SETOF record
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT place.queue, (SELECT count(*) FROM {schema}.region_sessions AS known WHERE known.queue_id = regional.queue_id)
    FROM {schema}.region_queues AS regional JOIN {schema}.queues AS place USING (queue_id)
    WHERE regional.name = of_name
    ORDER BY place.queue;
END;

-- The sessions of a queue behind one of them, in the order of their keys.
CREATE FUNCTION {schema}.region_sessions_behind(
    of_name text, of_queue text, behind text, at_most integer, OUT session text, OUT through bigint, OUT over_through bigint
) RETURNS SETOF record
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
#variable_conflict use_column
DECLARE
    its_queue integer := (
        SELECT regional.queue_id FROM {schema}.region_queues AS regional JOIN {schema}.queues AS place USING (queue_id)
        WHERE regional.name = of_name AND place.queue = of_queue
    );
BEGIN
    RETURN QUERY
        SELECT known.session, known.through, known.over_through
        FROM {schema}.region_sessions AS known
        WHERE known.queue_id = its_queue AND known.session > behind COLLATE "C"
        ORDER BY known.session
        LIMIT at_most;
END
$function$;
