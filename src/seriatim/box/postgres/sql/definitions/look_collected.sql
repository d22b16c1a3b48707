-- Purpose: request a look at every group with a message that a subscription collected: it may be handed out now.
-- Locks: none beyond its own rows: a turn that runs now finds them afterwards.
-- Index: entries_of_group, all of the queue.
INSERT INTO {schema}.requests (queue_id, group_key, action, rank)
SELECT queue_id, group_key, 'look', min(rank) FROM {schema}.entries JOIN {schema}.queues AS place USING (queue_id)
WHERE queue_id = %(queue_id)s AND place.definition -> 'policy' ->> 'name' <> 'unordered'
    AND %(subscription_id)s = ANY (subscription_ids)
GROUP BY queue_id, group_key
