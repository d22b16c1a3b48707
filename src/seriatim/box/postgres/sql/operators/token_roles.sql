-- Purpose: the role of a token and the role of the server that is to become it; no row if one of them isn't there.
-- Index: the catalog's own.
SELECT
    serving.rolname::text AS server,
    known.rolsuper OR pg_has_role(known.oid, place.nspowner, 'MEMBER') AS is_mighty,
    serving.rolsuper
        OR pg_has_role(serving.oid, known.oid, 'SET') AND NOT pg_has_role(serving.oid, known.oid, 'USAGE') AS is_fitting
FROM pg_roles AS known, pg_roles AS serving, pg_namespace AS place
WHERE known.rolname = %(role)s AND serving.rolname = coalesce(%(server)s, current_user)
    AND place.nspname = %(schema)s
