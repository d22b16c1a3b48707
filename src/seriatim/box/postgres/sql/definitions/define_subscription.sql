-- Purpose: make a subscription, or change one.
-- Caller: define.py, which has seen that it differs.
-- Locks: the subscription's row; its queue stays while the transaction lasts.
-- Index: known_subscriptions_subscription_key, queues_queue_key.
SELECT {schema}.subscribe(%(name)s, %(queue)s, %(definition)s::jsonb, %(state)s)
