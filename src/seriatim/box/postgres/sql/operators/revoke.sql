-- Purpose: revoke rights of a role, some or all. A role that was dropped is named as grants.sql names it.
-- Locks: the rows.
-- Index: none; the tables are small.
WITH matched AS (
    DELETE FROM {schema}.granted_types
    WHERE pg_get_userbyid(role::oid) = %(role)s AND (%(all_of_them)s OR type = ANY (%(types)s::text[]))
), space AS (
    DELETE FROM {schema}.id_spaces WHERE pg_get_userbyid(role::oid) = %(role)s AND %(all_of_them)s
)
DELETE FROM {schema}.grants AS given
WHERE pg_get_userbyid(role::oid) = %(role)s AND (
    %(all_of_them)s OR EXISTS (
        SELECT FROM unnest(
            %(may)s::text[], %(queue_ids)s::integer[], %(locations)s::text[], %(services)s::text[]
        ) AS named (may, queue_id, location, service)
        WHERE named.may = given.may AND named.queue_id IS NOT DISTINCT FROM given.queue_id
            AND named.location IS NOT DISTINCT FROM given.location AND named.service IS NOT DISTINCT FROM given.service
    )
)
