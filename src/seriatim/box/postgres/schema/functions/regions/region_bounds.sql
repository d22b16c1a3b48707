-- Return the keys before which the sessions of queues are closed, and over.
-- is: sql, stable, own path
CREATE OR REPLACE FUNCTION {schema}.region_bounds(
    of_name text, OUT queue text, OUT closed_before text, OUT over_before text
) RETURNS SETOF record
BEGIN ATOMIC
    SELECT place.queue, regional.closed_before, regional.over_before
    FROM {schema}.region_queues AS regional JOIN {schema}.queues AS place USING (queue_id)
    WHERE regional.name = of_name AND regional.closed_before IS NOT NULL;
END;
