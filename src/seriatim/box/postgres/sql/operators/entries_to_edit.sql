-- Purpose: messages as they are handed out next, with the digest of their bodies, to compare edits with; and whether each is
-- in this queue.
-- Right: see_bodies.
-- Index: entries_pkey, spool_pkey, edits_pkey.
SELECT
    entry.entry_id, entry.queue_id = %(queue_id)s AS is_here, entry.group_key AS "group", entry.sequence, stored.message_id, stored.type, stored.content_type,
    coalesce(new_context.context, stored.context)::text AS context,
    CASE WHEN new_context.context IS NULL THEN stored.property_types ELSE new_context.property_types END AS property_types,
    sha256(coalesce(new_body.body, stored.body)) AS digest
FROM {schema}.entries AS entry
JOIN {schema}.spool AS stored USING (arrival_id, position)
LEFT JOIN LATERAL (
    SELECT one.body FROM {schema}.edits AS one
    WHERE one.entry_id = entry.entry_id AND one.body IS NOT NULL ORDER BY one.edit_id DESC LIMIT 1
) AS new_body ON TRUE
LEFT JOIN LATERAL (
    SELECT one.context, one.property_types FROM {schema}.edits AS one
    WHERE one.entry_id = entry.entry_id AND one.context IS NOT NULL ORDER BY one.edit_id DESC LIMIT 1
) AS new_context ON TRUE
WHERE entry.entry_id = ANY (%(entry_ids)s::bigint[])
