-- Purpose: call another one who waits for a message of a queue, in place of one who has no use for what came.
-- Caller: waiting.py.
-- Locks: the row; whoever leaves meanwhile is skipped.
-- Index: waiters_of_queue.
SELECT {schema}.pass_on(%(queue_id)s, %(waiter_id)s, %(newest)s)
