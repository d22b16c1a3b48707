-- Purpose: give a role rights, besides those that it has.
-- Caller: grant.py.
-- Locks: none beyond its own rows; the queues and locations stay while the transaction lasts.
-- Index: grants_each_once.
INSERT INTO {schema}.grants (role, may, queue_id, location)
SELECT known.oid::regrole, named.may, named.queue_id, named.location
FROM pg_roles AS known, unnest(
    %(may)s::text[], %(queue_ids)s::integer[], %(locations)s::text[]
) AS named (may, queue_id, location)
WHERE known.rolname = %(role)s
ON CONFLICT DO NOTHING
