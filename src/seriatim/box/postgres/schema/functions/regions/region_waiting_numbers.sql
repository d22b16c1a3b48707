-- Return which of some messages wait under a name, and their reserved numbers.
-- is: stable, own path, no seqscan
CREATE OR REPLACE FUNCTION {schema}.region_waiting_numbers(
    of_name text, of_messages text[], OUT message_id text, OUT queue text, OUT session text, OUT number bigint
)
RETURNS SETOF record
AS $function$
#variable_conflict use_column
BEGIN
    RETURN QUERY
        SELECT one.message_id, place.queue, one.session, one.number
        FROM {schema}.region_waiting AS one JOIN {schema}.queues AS place USING (queue_id)
        WHERE one.name = of_name AND one.message_id = ANY (of_messages);
END
$function$;
