-- The columns of a message for a reader; its context is {0}.
stored.message_id, stored.type, stored.location, stored.epoch, stored.number, stored.content_type, stored.received_at,
{0}::text AS context, stored.property_types::text, stored.body,
CASE WHEN stored.parts IS NOT NULL THEN ARRAY(
    SELECT ROW(part.name, part.content_type, part.body) FROM {schema}.message_parts AS part
    WHERE part.arrival_id = stored.arrival_id AND part.position = stored.position ORDER BY part.number
) END AS parts
