-- Return the box's knowledge of messages, in the given order: through which number its session is over, by the
-- journal's answers (NULL: there was none), how long ago it was published in the first of both boxes, microseconds, and
-- the former id of a message that is withdrawn.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.copies_known(
    of_queue integer, of_groups text[], of_numbers bigint[], of_messages text[]
)
RETURNS TABLE (place bigint, through bigint, age bigint, withdrawn text)
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    RETURN QUERY
    SELECT
        asked.place, session.over_through,
        greatest((extract(epoch FROM clock_timestamp() - known.published_at) * 1000000)::bigint, 0),
        CASE WHEN known.withdrawn THEN known.message_id END
    FROM unnest(of_groups, of_numbers, of_messages) WITH ORDINALITY AS asked (group_key, number, message_id, place)
    LEFT JOIN {schema}.region_sessions AS session ON session.queue_id = of_queue AND session.session = asked.group_key
    LEFT JOIN {schema}.region_numbers AS known
        ON known.queue_id = of_queue AND known.session = asked.group_key AND known.number = asked.number
        AND (
            known.message_id = asked.message_id
            OR known.withdrawn AND starts_with(asked.message_id, left(known.message_id, 900) || ' withdrawn ')
        )
    ORDER BY asked.place;
END
$function$;
