-- Purpose: make a subscription, or change one. Answers with a row if that changed anything.
-- Caller: define.py.
-- Locks: the subscription's row; its queue stays while the transaction lasts.
-- Index: subscriptions_subscription_key, queues_queue_key.
INSERT INTO {schema}.subscriptions AS known (subscription, queue_id, definition, state)
SELECT %(name)s, queue_id, %(definition)s::jsonb, %(state)s FROM {schema}.queues WHERE queue = %(queue)s
ON CONFLICT (subscription) DO UPDATE
SET definition = excluded.definition, queue_id = excluded.queue_id, state = excluded.state
WHERE known.definition <> excluded.definition OR known.state <> excluded.state
RETURNING subscription
