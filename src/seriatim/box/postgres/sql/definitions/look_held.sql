-- Purpose: request a look at every group that holds messages: its wait ends at another time now.
-- Locks: none beyond its own rows: a turn that runs now finds them afterwards.
-- Index: entries_of_group, all of the queue.
INSERT INTO {schema}.requests (queue_id, group_key, action, rank)
SELECT queue_id, group_key, 'look', min(rank) FROM {schema}.entries JOIN {schema}.queues AS place USING (queue_id)
WHERE queue_id = %(queue_id)s AND place.definition -> 'policy' ->> 'name' <> 'unordered'
    AND status = 'held'
GROUP BY queue_id, group_key
