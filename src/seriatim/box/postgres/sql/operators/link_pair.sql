-- Purpose: the stored pair of two boxes, and the role or the key that is to speak as the other one.
-- Index: links_link_key, links_peer_key, links_role_key, links_public_key_key.
SELECT
    (SELECT box_id FROM {schema}.box_identity) AS own,
    (SELECT peer FROM {schema}.known_links WHERE link = %(name)s) AS peer,
    (SELECT pg_get_userbyid(role::oid)::text FROM {schema}.known_links WHERE link = %(name)s AND role IS NOT NULL) AS role,
    (SELECT public_key FROM {schema}.known_links WHERE link = %(name)s) AS public_key,
    (
        SELECT link FROM {schema}.known_links
        WHERE link <> %(name)s AND (public_key = %(public_key)s::bytea OR role = to_regrole(quote_ident(%(role)s)))
    ) AS its_link,
    (SELECT link FROM {schema}.known_links WHERE peer = %(peer)s::uuid AND link <> %(name)s) AS other_link,
    to_regrole(quote_ident(%(role)s)) IS NOT NULL AS role_is_there,
    coalesce((
        SELECT pg_has_role(one.oid, place.nspowner, 'USAGE') FROM pg_roles AS one, pg_namespace AS place
        WHERE one.rolname = %(role)s AND place.oid = '{schema}'::regnamespace
    ), FALSE) AS role_owns
