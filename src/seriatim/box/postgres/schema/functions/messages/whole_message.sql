-- Return the body of a stored message, with its parts; NULL: it has none.
-- is: sql, stable
CREATE OR REPLACE FUNCTION {schema}.whole_message(of_arrival bigint, at bigint)
RETURNS TABLE (
    body bytea, content_type text, part_names text[], part_content_types text[], part_bodies bytea[]
)
BEGIN ATOMIC
    SELECT stored.body, stored.content_type, parts.names, parts.content_types, parts.bodies
    FROM {schema}.spool AS stored
    CROSS JOIN LATERAL (
        SELECT
            array_agg(part.name ORDER BY part.number) AS names,
            array_agg(part.content_type ORDER BY part.number) AS content_types,
            array_agg(part.body ORDER BY part.number) AS bodies
        FROM {schema}.message_parts AS part
        WHERE stored.parts IS NOT NULL AND part.arrival_id = stored.arrival_id AND part.position = stored.position
    ) AS parts
    WHERE stored.arrival_id = of_arrival AND stored.position = at;
END;
