-- Purpose: leases that ran out a while ago, without a look since.
-- Index: none; all are read.
SELECT place.queue, lease.group_key, lease.worker, extract(epoch FROM clock_timestamp() - lease.expires_at)::float8
FROM {schema}.leases AS lease JOIN {schema}.queues AS place USING (queue_id)
WHERE lease.expires_at < clock_timestamp() - make_interval(secs => %(seconds)s)
ORDER BY lease.expires_at LIMIT %(most)s
