-- Request an action on a locked group; its next turn obeys.
-- is: definer
CREATE OR REPLACE FUNCTION {schema}.request(of_queue integer, of_group text, its_action text) RETURNS void
AS $function$
BEGIN
    PERFORM {schema}.permit('operate', ARRAY[of_queue]);
    INSERT INTO {schema}.requests (queue_id, group_key, action, rank)
    VALUES (of_queue, of_group, its_action, {schema}.now_us());
END
$function$;
