-- Take over the keys before which another party has closed the sessions of queues.
-- is: own path
CREATE OR REPLACE FUNCTION {schema}.region_take_bounds(
    of_name text, queues text[], befores text[]
) RETURNS void
AS $function$
BEGIN
    UPDATE {schema}.region_queues AS regional
    SET closed_before = greatest(regional.closed_before, given.before COLLATE "C")
    FROM unnest(queues, befores) AS given (queue, before)
    WHERE regional.queue_id = {schema}.region_queue_id(of_name, given.queue);
END
$function$;
