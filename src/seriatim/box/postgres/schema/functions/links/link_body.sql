-- Return the body of a message in the spool in its transfer form: followed by its parts.
-- is: sql, stable
CREATE OR REPLACE FUNCTION {schema}.link_body(of_arrival bigint, at_position integer) RETURNS bytea
RETURN (
    SELECT CASE WHEN stored.parts IS NULL THEN stored.body ELSE stored.body || (
        SELECT string_agg(part.body, ''::bytea ORDER BY part.number) FROM {schema}.message_parts AS part
        WHERE part.arrival_id = stored.arrival_id AND part.position = stored.position
    ) END
    FROM {schema}.spool AS stored
    WHERE stored.arrival_id = ANY (ARRAY[of_arrival]) AND stored.position = ANY (ARRAY[at_position])
);
