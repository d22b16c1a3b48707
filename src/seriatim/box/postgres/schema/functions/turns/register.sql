-- Register for a notification when a message comes to a queue.
-- is: definer
CREATE OR REPLACE FUNCTION {schema}.register(of_queue integer) RETURNS bigint
AS $function$
DECLARE
    number bigint;
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    INSERT INTO {schema}.waiters (queue_id, channel, routes)
    VALUES (of_queue, 'seriatim_' || pg_backend_pid(), {schema}.may_route()) RETURNING waiter_id INTO number;
    RETURN number;
END
$function$;
