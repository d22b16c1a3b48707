-- Purpose: take a subscription away; what it has collected stays in its queue.
-- Locks: the subscription's row.
-- Index: known_subscriptions_subscription_key.
DELETE FROM {schema}.known_subscriptions WHERE subscription = %(name)s
