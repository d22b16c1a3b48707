-- Return the names of all queues of regions.
-- is: sql, stable, own path
CREATE OR REPLACE FUNCTION {schema}.region_queue_names() RETURNS text[]
RETURN ARRAY(SELECT known.queue FROM {schema}.region_queues AS regional JOIN {schema}.queues AS known USING (queue_id));
