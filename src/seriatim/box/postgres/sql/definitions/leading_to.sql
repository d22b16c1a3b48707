-- Purpose: the subscriptions to a queue.
-- Index: none; the table is small.
SELECT subscription FROM {schema}.known_subscriptions WHERE queue_id = %(queue_id)s ORDER BY subscription
