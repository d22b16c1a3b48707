-- Purpose: give a role further rights.
-- Locks: none beyond its own rows; the queues and locations stay while the transaction lasts.
-- Index: grants_each_once, granted_types_pkey.
WITH known AS (
    SELECT oid::regrole AS role FROM pg_roles WHERE rolname = %(role)s
), matched AS (
    INSERT INTO {schema}.granted_types (role, type)
    SELECT known.role, named.type FROM known, unnest(%(types)s::text[]) AS named (type)
    ON CONFLICT DO NOTHING
)
INSERT INTO {schema}.grants (role, may, queue_id, location, service)
SELECT known.role, named.may, named.queue_id, named.location, named.service
FROM known, unnest(
    %(may)s::text[], %(queue_ids)s::integer[], %(locations)s::text[], %(services)s::text[]
) AS named (may, queue_id, location, service)
ON CONFLICT DO NOTHING
