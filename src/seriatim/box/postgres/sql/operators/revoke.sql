-- Purpose: revoke rights of a role, some or all.
-- Locks: the rows.
-- Index: grants_each_once, granted_types_pkey.
WITH known AS (
    SELECT oid::regrole AS role FROM pg_roles WHERE rolname = %(role)s
), matched AS (
    DELETE FROM {schema}.granted_types
    WHERE role = (SELECT role FROM known) AND (%(all_of_them)s OR type = ANY (%(types)s::text[]))
), space AS (
    DELETE FROM {schema}.id_spaces WHERE role = (SELECT role FROM known) AND %(all_of_them)s
)
DELETE FROM {schema}.grants AS given
WHERE role = (SELECT role FROM known) AND (
    %(all_of_them)s OR EXISTS (
        SELECT FROM unnest(
            %(may)s::text[], %(queue_ids)s::integer[], %(locations)s::text[], %(services)s::text[]
        ) AS named (may, queue_id, location, service)
        WHERE named.may = given.may AND named.queue_id IS NOT DISTINCT FROM given.queue_id
            AND named.location IS NOT DISTINCT FROM given.location AND named.service IS NOT DISTINCT FROM given.service
    )
)
