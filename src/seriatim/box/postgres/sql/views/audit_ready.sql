-- Purpose: the law of the next group: a group with queued messages that is neither stopped nor closed, nor in hand, has
-- a time for its next turn, or its first message (or one of its set) is hidden until it is released, or its gate lets
-- no more be handed out. Otherwise no turn would ever look at it. Return the violations.
-- Locks: none; one statement, so it is all of one moment.
-- Index: none for the groups, all of which are read; entries_of_group, requests_of_group.
SELECT place.queue, known.group_key, queued.messages
FROM {schema}.known_groups AS known
JOIN {schema}.queues AS place USING (queue_id)
CROSS JOIN LATERAL (
    SELECT
        count(*) AS messages, (array_agg(kept.back ORDER BY entry.ordinal))[1] AS first_is_kept,
        bool_or(kept.back) AS one_is_kept
    FROM {schema}.entries AS entry
    CROSS JOIN LATERAL (
        SELECT coalesce(entry.visible_at = 'infinity', FALSE) OR entry.subscription_ids <> '{}'
            AND entry.subscription_ids <@ ARRAY(
                SELECT one.subscription_id FROM {schema}.known_subscriptions AS one
                WHERE one.queue_id = entry.queue_id AND one.state <> 'started'
            ) AS back
    ) AS kept
    WHERE entry.queue_id = known.queue_id AND entry.group_key = known.group_key AND entry.status = 'queued'
) AS queued
WHERE known.ready_rank IS NULL AND known.due_at IS NULL AND known.flags & {flag.SUSPENDED|FAULTED} = 0
    -- A set that is complete closes its group, and is handed out.
    AND known.flags & {flag.CLOSED|COMPLETE} <> {flag.CLOSED}
    AND place.owner IS NULL
    AND queued.messages > 0 AND NOT queued.first_is_kept
    AND NOT (queued.one_is_kept AND place.definition #>> '{policy,name}' = 'unit_of_work')
    AND NOT EXISTS (
        SELECT FROM {schema}.leases AS lease
        WHERE lease.queue_id = known.queue_id AND lease.group_key = known.group_key
    )
    AND NOT EXISTS (
        SELECT FROM {schema}.requests AS asked
        WHERE asked.queue_id = known.queue_id AND asked.group_key = known.group_key
    )
LIMIT %(most)s
