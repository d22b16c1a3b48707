-- Purpose: give a role rights, besides those that it has.
-- Caller: grant.py.
-- Locks: none beyond its own rows; the queues stay while the transaction lasts.
-- Index: grants_role_may_queue_id_key.
INSERT INTO {schema}.grants (role, may, queue_id)
SELECT known.oid::regrole, named.may, named.queue_id
FROM pg_roles AS known, unnest(%(may)s::text[], %(queue_ids)s::integer[]) AS named (may, queue_id)
WHERE known.rolname = %(role)s
ON CONFLICT DO NOTHING
