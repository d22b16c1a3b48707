-- Purpose: the law of who is next: a group with queued messages that isn't stopped, and that nobody has in hand, says when it
-- is next, or its first message says never. Else nobody would ever look at it. Gives what breaks it.
-- Caller: invariants.py.
-- Locks: none; one statement, so it is all of one moment.
-- Index: none for the groups, all of which are read; entries_of_group, requests_of_group.
SELECT place.queue, known.group_key, queued.messages
FROM {schema}.known_groups AS known
JOIN {schema}.queues AS place USING (queue_id)
CROSS JOIN LATERAL (
    SELECT count(*) AS messages, (array_agg(entry.visible_at ORDER BY entry.ordinal))[1] AS visible_at
    FROM {schema}.entries AS entry
    WHERE entry.queue_id = known.queue_id AND entry.group_key = known.group_key AND entry.status = 'queued'
) AS queued
WHERE known.ready_rank IS NULL AND known.due_at IS NULL AND known.flags & 24 = 0
    AND place.owner IS NULL
    AND queued.messages > 0 AND coalesce(queued.visible_at < 'infinity', TRUE)
    AND NOT EXISTS (
        SELECT FROM {schema}.leases AS lease
        WHERE lease.queue_id = known.queue_id AND lease.group_key = known.group_key
    )
    AND NOT EXISTS (
        SELECT FROM {schema}.requests AS asked
        WHERE asked.queue_id = known.queue_id AND asked.group_key = known.group_key
    )
LIMIT %(most)s
