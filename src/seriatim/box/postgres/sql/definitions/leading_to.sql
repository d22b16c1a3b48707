-- Purpose: the subscriptions to a queue.
-- Caller: drop.py.
-- Locks: none.
-- Index: none; the table is small.
SELECT subscription FROM {schema}.known_subscriptions WHERE queue_id = %(queue_id)s ORDER BY subscription
