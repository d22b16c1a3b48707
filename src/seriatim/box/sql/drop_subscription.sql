-- Purpose: take a subscription away; what it has collected stays in its queue.
-- Caller: drop.py.
-- Locks: the subscription's row.
-- Index: subscriptions_subscription_key.
DELETE FROM {schema}.subscriptions WHERE subscription = %(name)s
