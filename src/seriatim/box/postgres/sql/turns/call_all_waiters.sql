-- Purpose: call everybody who waits for a message of some queues.
-- Caller: whoever makes messages ready that were there before.
-- Locks: the rows; whoever leaves meanwhile is skipped.
-- Index: waiters_of_queue.
WITH called AS (
    DELETE FROM {schema}.waiters WHERE waiter_id IN (
        SELECT waiter_id FROM {schema}.waiters WHERE queue_id = ANY (%(queue_ids)s) FOR UPDATE SKIP LOCKED
    ) RETURNING channel
)
SELECT count(pg_notify(channel, '')) AS called FROM called
