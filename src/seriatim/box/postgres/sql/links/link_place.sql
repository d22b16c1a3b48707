-- Purpose: the number of a link, and the id of the box at its other end.
-- Caller: transmission.py.
-- Locks: none.
-- Index: links_link_key.
SELECT link_id, peer FROM {schema}.links WHERE link = %(name)s
