-- Purpose: write a link, and which box is at its other end, if that is said.
-- Locks: the row, against transmitters.
-- Index: links_link_key.
INSERT INTO {schema}.known_links (link, definition, peer, queues)
VALUES (%(name)s, %(definition)s::jsonb, %(box)s::uuid, %(queues)s::text[])
ON CONFLICT (link) DO UPDATE SET
    definition = excluded.definition, peer = coalesce(excluded.peer, known_links.peer), queues = excluded.queues
