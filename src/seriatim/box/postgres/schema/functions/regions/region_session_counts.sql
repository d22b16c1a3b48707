-- Return the queues of a name, with the numbers of their sessions.
-- is: sql, stable, own path
CREATE OR REPLACE FUNCTION {schema}.region_session_counts(
    of_name text, OUT queue text, OUT sessions bigint
) RETURNS SETOF record
BEGIN ATOMIC
    SELECT place.queue,
        (SELECT count(*) FROM {schema}.region_sessions AS known WHERE known.queue_id = regional.queue_id)
    FROM {schema}.region_queues AS regional JOIN {schema}.queues AS place USING (queue_id)
    WHERE regional.name = of_name
    ORDER BY place.queue;
END;
