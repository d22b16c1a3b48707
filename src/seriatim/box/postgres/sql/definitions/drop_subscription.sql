-- Purpose: drop a subscription; its collected messages stay in its queue.
-- Locks: the subscription's row.
-- Index: known_subscriptions_subscription_key.
DELETE FROM {schema}.known_subscriptions WHERE subscription = %(name)s
