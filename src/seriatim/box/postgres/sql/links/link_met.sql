-- Purpose: note which box is at the other end of a link, at the first contact.
-- Locks: the row, for a moment.
-- Index: links_pkey.
UPDATE {schema}.known_links SET peer = %(peer)s, peer_incarnation = 0 WHERE link_id = %(of_link)s AND peer IS NULL
