-- Purpose: note which role or key speaks as which box, into which queues, and whether it may trace its messages.
-- Locks: the row.
-- Index: links_link_key.
INSERT INTO {schema}.links (link, peer, role, public_key, queues, traces)
VALUES (%(name)s, %(peer)s, to_regrole(quote_ident(%(role)s)), %(public_key)s::bytea, %(queues)s::text[], %(traces)s)
ON CONFLICT (link) DO UPDATE SET peer = excluded.peer, role = excluded.role, public_key = excluded.public_key, queues = excluded.queues,
    traces = excluded.traces
