-- Return the box's messages under some numbers, and the numbers of some messages. `voted`: its vote counts.
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
        SELECT its.queue_id, its.session, its.number, its.message_id,
            its.voted AND its.arrival_id > coalesce(role.votes_after, 0), its.beside, its.withdrawn
        FROM (
            SELECT known.*
            FROM unnest(of_queues, of_sessions, of_numbers) AS given (queue_id, session, number)
            JOIN {schema}.region_numbers AS known
                ON known.queue_id = ANY (ARRAY[given.queue_id]) AND known.session = ANY (ARRAY[given.session])
                AND known.number = ANY (ARRAY[given.number])
            UNION
            SELECT known.*
            FROM unnest(of_messages) AS given (message_id)
            JOIN {schema}.region_numbers AS known ON known.message_id = ANY (ARRAY[given.message_id])
        ) AS its
        LEFT JOIN {schema}.region_queues AS regional ON regional.queue_id = ANY (ARRAY[its.queue_id])
        LEFT JOIN {schema}.region_roles AS role ON role.name = ANY (ARRAY[regional.name]);
END
$function$;
