-- Purpose: how many messages each queue's groups have released until now; a queue without groups has no row.
-- Index: none; a row of each group is read.
SELECT place.queue, sum(known.ordinal)::bigint AS released
FROM {schema}.known_groups AS known JOIN {schema}.queues AS place USING (queue_id)
GROUP BY place.queue
