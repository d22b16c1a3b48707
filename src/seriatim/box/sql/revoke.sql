-- Purpose: take rights from a role, some or all.
-- Caller: grant.py.
-- Locks: the rows.
-- Index: grants_each_once.
DELETE FROM {schema}.grants AS known
WHERE role = (SELECT oid::regrole FROM pg_roles WHERE rolname = %(role)s) AND (
    %(all_of_them)s OR EXISTS (
        SELECT FROM unnest(
            %(may)s::text[], %(queue_ids)s::integer[], %(locations)s::text[]
        ) AS named (may, queue_id, location)
        WHERE named.may = known.may AND named.queue_id IS NOT DISTINCT FROM known.queue_id
            AND named.location IS NOT DISTINCT FROM known.location
    )
)
