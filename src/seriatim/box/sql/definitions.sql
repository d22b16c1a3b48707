-- Purpose: everything that is defined, with its version, as of one moment.
-- Caller: definitions.py, where the version has changed.
-- Locks: none.
-- Index: none; these tables are small and read whole.
SELECT 'version' AS kind, max(version) AS id, NULL AS name, NULL::jsonb AS definition, NULL AS state, NULL AS owner
FROM {schema}.changes
UNION ALL
SELECT 'type', NULL, type, definition, NULL, NULL FROM {schema}.types
UNION ALL
SELECT 'queue', queue_id, queue, definition, CASE WHEN enabled THEN 'on' ELSE 'off' END, owner FROM {schema}.queues
UNION ALL
SELECT 'subscription', subscription_id, subscription, definition, state, NULL FROM {schema}.subscriptions
