-- Purpose: the links whose address this box has: the box at the other end, and whether the last round failed.
-- Index: links_link_key.
SELECT link AS name, definition::text AS definition, link_id, peer, peer_incarnation, version, last_error IS NOT NULL AS has_failed
FROM {schema}.known_links WHERE definition IS NOT NULL AND (%(name)s::text IS NULL OR link = %(name)s) ORDER BY link
