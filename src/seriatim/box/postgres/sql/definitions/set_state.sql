-- Purpose: start or stop a subscription, whatever its declaration says. Answers with a row if that changed anything.
-- Locks: the subscription's row.
-- Index: known_subscriptions_subscription_key.
UPDATE {schema}.known_subscriptions SET state = %(state)s
WHERE subscription = %(name)s AND state <> %(state)s
RETURNING subscription_id, queue_id
