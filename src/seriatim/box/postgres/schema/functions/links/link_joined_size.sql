-- Return the size of the body of a message with its parts, in bytes.
-- is: sql, stable
CREATE OR REPLACE FUNCTION {schema}.link_joined_size(of_arrival bigint, at_position integer) RETURNS integer
RETURN (
    SELECT (octet_length(stored.body) + coalesce((
        SELECT sum(octet_length(part.body)) FROM {schema}.message_parts AS part
        WHERE part.arrival_id = stored.arrival_id AND part.position = stored.position
    ), 0))::integer
    FROM {schema}.spool AS stored
    WHERE stored.arrival_id = ANY (ARRAY[of_arrival]) AND stored.position = ANY (ARRAY[at_position])
);
