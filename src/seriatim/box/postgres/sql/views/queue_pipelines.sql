-- Purpose: the queues that belong to pipelines: whether a run reads the queue now, its waiting messages, and since when
-- they wait.
-- Locks: none; the lock that a run holds (hold_reader.sql) is looked up in the list of locks.
-- Index: queues_pkey, readers_pkey, entries_of_group: all of such a queue.
SELECT
    place.queue,
    place.owner AS pipeline,
    EXISTS (
        SELECT FROM pg_locks AS held
        WHERE held.locktype = 'advisory' AND held.objsubid = 1 AND held.granted
            AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database())
            AND (held.classid::bigint << 32) | held.objid::bigint = hashtextextended(
                'seriatim reader ' || place.queue_id, '{schema}'::regnamespace::oid::bigint
            )
    ) AS runs,
    entry.messages,
    entry.in_hand,
    to_timestamp(entry.oldest_us / 1e6) AS since,
    extract(epoch FROM clock_timestamp())::float8 - entry.oldest_us / 1e6::float8 AS age_s
FROM {schema}.queues AS place
CROSS JOIN LATERAL (
    SELECT
        count(*) FILTER (WHERE one.status NOT IN ('held', 'placed')) AS messages,
        count(*) FILTER (WHERE one.status = 'in_hand') AS in_hand,
        min(one.rank + (one.priority - 5) * 10000000) FILTER (WHERE one.status NOT IN ('held', 'placed')) AS oldest_us
    FROM {schema}.entries AS one WHERE one.queue_id = place.queue_id
) AS entry
WHERE place.owner IS NOT NULL
ORDER BY place.queue
