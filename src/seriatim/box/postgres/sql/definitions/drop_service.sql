-- Purpose: drop a service.
-- Caller: define.py, which has seen that it has no dialogs.
-- Locks: the service's row.
-- Index: services_pkey.
DELETE FROM {schema}.services WHERE service = %(name)s
