-- Purpose: begin a dialog, or a monolog.
-- Caller: dialogs.py.
-- Locks: its group, where that is an older one.
-- Index: services_pkey, contracts_pkey, endpoints_pkey.
SELECT handle, refused, what, remedy FROM {schema}.try_begin(
    %(from_service)s, %(to_services)s::text[], %(contract)s, %(lifetime)s::interval, %(related_to)s::uuid,
    %(group)s::uuid, %(priority)s, %(encryption)s, %(is_monolog)s, %(handle)s::uuid
)
