-- Purpose: what each queue has, and what it has set aside; of one queue, or all.
-- Caller: queue_counts.py.
-- Locks: none.
-- Index: entries_of_group, aside_of_group: all of a queue.
SELECT queue, policy, enabled, owner, arrived, held, queued, in_hand, late, duplicate, invalid, rejected, dead, oldest,
    max_messages
FROM {schema}.queue_counts
WHERE %(queue)s::text IS NULL OR queue = %(queue)s
ORDER BY queue
