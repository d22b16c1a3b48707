-- Purpose: make a service, or change one.
-- Locks: the service's row.
-- Index: services_pkey, queues_queue_key.
INSERT INTO {schema}.known_services AS known (service, queue_id, definition)
VALUES (%(name)s, (SELECT queue_id FROM {schema}.queues WHERE queue = %(queue)s), %(definition)s::jsonb)
ON CONFLICT (service) DO UPDATE SET queue_id = excluded.queue_id, definition = excluded.definition
