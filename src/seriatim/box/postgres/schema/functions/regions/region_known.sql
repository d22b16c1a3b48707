-- Return the box's messages under some numbers, and the numbers of some messages.
-- is: stable, own path, generic plan, no seqscan
CREATE OR REPLACE FUNCTION {schema}.region_known(
    of_queues integer[], of_sessions text[], of_numbers bigint[], of_messages text[],
    OUT queue_id integer, OUT session text, OUT number bigint, OUT message_id text, OUT voted boolean,
    OUT beside boolean,
    OUT withdrawn boolean
) RETURNS SETOF record
AS $function$
#variable_conflict use_column
BEGIN
    RETURN QUERY
        SELECT known.queue_id, known.session, known.number, known.message_id, known.voted, known.beside, known.withdrawn
        FROM unnest(of_queues, of_sessions, of_numbers) AS given (queue_id, session, number)
        JOIN {schema}.region_numbers AS known
            ON known.queue_id = ANY (ARRAY[given.queue_id]) AND known.session = ANY (ARRAY[given.session])
            AND known.number = ANY (ARRAY[given.number])
        UNION
        SELECT known.queue_id, known.session, known.number, known.message_id, known.voted, known.beside, known.withdrawn
        FROM unnest(of_messages) AS given (message_id)
        JOIN {schema}.region_numbers AS known ON known.message_id = ANY (ARRAY[given.message_id]);
END
$function$;
