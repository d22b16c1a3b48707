-- Purpose: drop a service.
-- Locks: the service's row.
-- Index: services_pkey.
DELETE FROM {schema}.known_services WHERE service = %(name)s
