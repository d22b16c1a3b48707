-- Purpose: forget a link, with its streams and their messages.
-- Locks: its rows.
-- Index: links_link_key.
DELETE FROM {schema}.known_links WHERE link = %(name)s
