-- Purpose: bodies and properties of messages as they are handed out next, by their places among those asked for.
-- Right: see_bodies.
-- Index: spool_pkey, edits_pkey.
SELECT
    wanted.place, stored.content_type, coalesce(new_body.body, stored.body) AS body,
    coalesce(new_context.context, stored.context)::text AS context,
    CASE WHEN new_context.context IS NULL THEN stored.property_types ELSE new_context.property_types END AS property_types
FROM unnest(
    %(arrival_ids)s::bigint[], %(positions)s::bigint[], %(entry_ids)s::bigint[]
) WITH ORDINALITY AS wanted (arrival_id, position, entry_id, place)
JOIN {schema}.spool AS stored ON stored.arrival_id = wanted.arrival_id AND stored.position = wanted.position
LEFT JOIN LATERAL (
    SELECT one.body FROM {schema}.edits AS one
    WHERE one.entry_id = wanted.entry_id AND one.body IS NOT NULL ORDER BY one.edit_id DESC LIMIT 1
) AS new_body ON TRUE
LEFT JOIN LATERAL (
    SELECT one.context, one.property_types FROM {schema}.edits AS one
    WHERE one.entry_id = wanted.entry_id AND one.context IS NOT NULL ORDER BY one.edit_id DESC LIMIT 1
) AS new_context ON TRUE
