-- Purpose: the law of leases: its messages exist, in its queue and group, released and not done, or hidden in a queue
-- without groups. Return the violations.
-- Locks: none; one statement, so it is all of one moment.
-- Index: entries_pkey.
SELECT coalesce(place.queue, lease.queue_id::text), lease.group_key, lease.token, lease.worker, count(*) AS missing
FROM {schema}.leases AS lease
LEFT JOIN {schema}.queues AS place USING (queue_id)
CROSS JOIN LATERAL unnest(lease.entry_ids) AS one (entry_id)
WHERE lease.error IS NULL AND NOT EXISTS (
    SELECT FROM {schema}.entries AS entry
    WHERE entry.entry_id = one.entry_id AND entry.queue_id = lease.queue_id
        AND CASE WHEN lease.group_key IS NULL
            THEN entry.status = 'arrived' AND entry.visible_at = 'infinity'
            ELSE entry.group_key = lease.group_key AND entry.status = 'queued' AND entry.ordinal IS NOT NULL END
)
GROUP BY 1, 2, 3, 4
ORDER BY lease.token
LIMIT %(most)s
