-- Return the id of a queue of the regions; NULL: they have none of that name here.
-- is: sql, stable, own path
CREATE OR REPLACE FUNCTION {schema}.region_queue_id(of_name text, of_queue text) RETURNS integer
BEGIN ATOMIC
    SELECT regional.queue_id
    FROM {schema}.region_queues AS regional JOIN {schema}.queues AS place USING (queue_id)
    WHERE regional.name = of_name AND place.queue = of_queue;
END;
