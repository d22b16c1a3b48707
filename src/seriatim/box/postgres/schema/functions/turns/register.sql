-- Register for a notification when a message comes to a queue; -1: when a reply comes to a request.
-- is: definer
CREATE OR REPLACE FUNCTION {schema}.register(of_queue integer) RETURNS bigint
AS $function$
DECLARE
    number bigint;
BEGIN
    IF of_queue = -1 THEN
        PERFORM {schema}.permit_anything();
    ELSE
        PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    END IF;
    INSERT INTO {schema}.waiters (queue_id, channel, routes)
    VALUES (of_queue, 'seriatim_' || pg_backend_pid(), {schema}.may_route()) RETURNING waiter_id INTO number;
    RETURN number;
END
$function$;
