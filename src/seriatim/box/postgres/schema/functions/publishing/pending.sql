-- Return the next messages that wait to be routed, in order of commit: at most `at_most`, with at most `at_most_bytes`
-- of bodies, but one at least. One transaction at a time routes: this takes the lock. `permitted`: the queues that the
-- publisher may publish to, NULL: all. `settled`, `unsettled`: where to look, so that only that is read where little
-- waits.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.pending(
    at_most integer, at_most_bytes bigint, settled xid8, unsettled xid8[]
) RETURNS TABLE (
    arrival_id bigint, "position" bigint, message_id text, type text, content_type text, context text,
    property_types jsonb, body bytea, received_at timestamptz, publisher text, permitted integer[]
)
AS $function$
#variable_conflict use_column
DECLARE
    near record;
BEGIN
    PERFORM {schema}.permit('route', ARRAY[]::integer[]);
    PERFORM {schema}.take_lock({schema}.lock_of('routing'), 'routing');
    -- Separate statements: their snapshots are younger than the lock. Messages between the two wait longer.
    SELECT count(*) AS count, min(stamp) AS first_stamp INTO near FROM (
        (
            SELECT stamp FROM {schema}.to_route WHERE transaction >= settled ORDER BY transaction
        ) UNION ALL (
            SELECT stamp FROM {schema}.to_route WHERE transaction = ANY (unsettled)
        ) LIMIT at_most
    ) AS found;
    RETURN QUERY
    SELECT
        stored.arrival_id, stored.position::bigint, stored.message_id, stored.type, stored.content_type,
        stored.context::text,
        stored.property_types, stored.body, stored.received_at, found.publisher, found.permitted
    FROM (
        SELECT
            waiting.*,
            sum(octet_length(stored.body)) OVER (ORDER BY waiting.stamp, waiting.serial)
                - octet_length(stored.body) AS bytes_before
        FROM (
            SELECT * FROM {schema}.to_route
            WHERE stamp >= CASE WHEN near.count < at_most THEN near.first_stamp ELSE 0 END
            ORDER BY stamp, serial LIMIT at_most
        ) AS waiting
        JOIN {schema}.spool AS stored
            ON stored.arrival_id = ANY (ARRAY[waiting.arrival_id]) AND stored.position = ANY (ARRAY[waiting.position])
    ) AS found
    JOIN {schema}.spool AS stored
        ON stored.arrival_id = ANY (ARRAY[found.arrival_id]) AND stored.position = ANY (ARRAY[found.position])
    WHERE found.bytes_before < at_most_bytes
    ORDER BY found.stamp, found.serial;
END
$function$;
