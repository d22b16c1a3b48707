-- Purpose: how many sessions the box remembers of each queue of two regions, counted up to a limit, and their size.
-- Index: region_sessions_pkey.
SELECT place.queue, known.sessions, pg_total_relation_size('{schema}.region_sessions'::regclass) AS bytes
FROM {schema}.region_queues AS regional
JOIN {schema}.queues AS place USING (queue_id)
CROSS JOIN LATERAL (
    SELECT count(*) AS sessions FROM (
        SELECT FROM {schema}.region_sessions AS one WHERE one.queue_id = regional.queue_id LIMIT %(most)s
    ) AS found
) AS known
ORDER BY known.sessions DESC, place.queue
