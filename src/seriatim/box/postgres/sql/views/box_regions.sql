-- Purpose: the regions that the box belongs to, by name, each with its queues.
-- Index: all of both tables, which have a row for each name and each queue.
SELECT one.name, one.region, one.incarnation, one.defined_at, ARRAY(
    SELECT place.queue::text FROM {schema}.region_queues AS regional JOIN {schema}.queues AS place USING (queue_id)
    WHERE regional.name = one.name ORDER BY 1
) AS queues
FROM {schema}.region_roles AS one
ORDER BY one.name
