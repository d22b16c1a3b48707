-- Purpose: the groups at which a turn has failed, each with its error.
-- Index: none; all leases are read.
SELECT place.queue, lease.group_key AS "group", lease.error
FROM {schema}.leases AS lease JOIN {schema}.queues AS place USING (queue_id)
WHERE lease.error IS NOT NULL ORDER BY lease.token
