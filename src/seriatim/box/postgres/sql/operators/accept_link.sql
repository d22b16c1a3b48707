-- Purpose: note which role speaks as which box, and into which queues.
-- Caller: operators/links.py.
-- Locks: the row.
-- Index: links_link_key.
INSERT INTO {schema}.links (link, peer, role, queues)
VALUES (%(name)s, %(peer)s, to_regrole(quote_ident(%(role)s)), %(queues)s::text[])
ON CONFLICT (link) DO UPDATE SET peer = excluded.peer, role = excluded.role, queues = excluded.queues
