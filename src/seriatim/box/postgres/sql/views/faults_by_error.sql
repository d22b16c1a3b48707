-- Purpose: how often handlers failed at which error, the most frequent first; filtered as faults.sql.
-- Index: faults_of_group where a queue and a group are given; otherwise all faults are read.
SELECT
    one.error_class AS error, count(*) AS count, (array_agg(one.error ORDER BY one.fault_id DESC))[1] AS example,
    max(one.at) AS last
FROM {schema}.faults AS one LEFT JOIN {schema}.queues AS place USING (queue_id)
WHERE {fault_fits()}
GROUP BY one.error_class
ORDER BY count(*) DESC, one.error_class
LIMIT %(limit)s
