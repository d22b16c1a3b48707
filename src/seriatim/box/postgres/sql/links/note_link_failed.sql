-- Purpose: note why an exchange over a link failed; NULL: it didn't.
-- Locks: the row, for a moment.
-- Index: links_link_key.
UPDATE {schema}.known_links SET last_error = %(error)s, failed_at = CASE WHEN %(error)s::text IS NULL THEN failed_at ELSE now() END
WHERE link = %(name)s AND (last_error IS DISTINCT FROM %(error)s OR %(error)s::text IS NOT NULL)
