-- Purpose: the ids of the boxes at both ends of a link.
-- Index: links_link_key.
SELECT (SELECT box_id FROM {schema}.box_identity) AS own, (SELECT peer FROM {schema}.known_links WHERE link = %(name)s) AS peer
