-- Purpose: move a schedule on, in the transaction that has published for it.
-- Locks: the row.
-- Index: schedules_pkey.
UPDATE {schema}.schedules SET
    next_at = %(next_at)s,
    last_at = coalesce(%(last_at)s, last_at),
    last_message = coalesce(%(last_message)s, last_message),
    published_at = CASE WHEN %(published)s::bigint > 0 THEN now() ELSE published_at END,
    published = published + %(published)s::bigint,
    failed_at = NULL, error = NULL, look_at = NULL
WHERE schedule = %(name)s
