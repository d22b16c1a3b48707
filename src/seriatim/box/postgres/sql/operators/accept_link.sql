-- Purpose: note which role or key speaks as which box, into which queues, as which services, and whether it may trace its messages.
-- Locks: the row.
-- Index: links_link_key.
INSERT INTO {schema}.known_links (link, peer, role, public_key, queues, services, traces)
VALUES (%(name)s, %(peer)s, to_regrole(quote_ident(%(role)s)), %(public_key)s::bytea, %(queues)s::text[], %(services)s::text[], %(traces)s)
ON CONFLICT (link) DO UPDATE SET peer = excluded.peer, role = excluded.role, public_key = excluded.public_key, queues = excluded.queues,
    services = excluded.services, traces = excluded.traces, refused = NULL, refused_at = NULL
