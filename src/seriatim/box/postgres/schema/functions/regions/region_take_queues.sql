-- Give queues to a name. Return those that can't be given: others' queues, or queues that had messages before, whose
-- numbers are unknown.
-- is: own path
CREATE OR REPLACE FUNCTION {schema}.region_take_queues(
    of_name text, queues text[], OUT queue text, OUT why text
) RETURNS SETOF record
AS $function$
#variable_conflict use_column
BEGIN
    INSERT INTO {schema}.region_queues (queue_id, name)
    SELECT known.queue_id, of_name FROM {schema}.queues AS known
    WHERE known.queue = ANY (queues) AND NOT EXISTS (
        SELECT FROM {schema}.known_groups AS one WHERE one.queue_id = known.queue_id
    ) AND NOT EXISTS (
        SELECT FROM {schema}.entries AS one WHERE one.queue_id = known.queue_id
    )
    ON CONFLICT DO NOTHING;
    IF FOUND THEN -- receivers know by the definitions that the journal decides
        PERFORM {schema}.take_lock({schema}.lock_of('definitions'), 'the definitions');
        INSERT INTO {schema}.changes (version, what)
        SELECT max(version) + 1, 'queues became those of two regions' FROM {schema}.changes;
    END IF;
    RETURN QUERY
        SELECT known.queue, CASE WHEN regional.name IS NULL THEN 'used' ELSE 'others' END
        FROM {schema}.queues AS known LEFT JOIN {schema}.region_queues AS regional USING (queue_id)
        WHERE known.queue = ANY (queues) AND regional.name IS DISTINCT FROM of_name ORDER BY 1;
END
$function$;
