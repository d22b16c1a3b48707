-- Record an operator's action; PostgreSQL adds the role. Without a queue that is the owner's.
-- is: definer
CREATE OR REPLACE FUNCTION {schema}.log_operation(
    its_actor text, its_action text, of_queue text, of_group text, its_reason text, its_details jsonb
) RETURNS bigint
AS $function$
DECLARE
    number bigint;
BEGIN
    IF NOT {schema}.is_owner() THEN
        PERFORM {schema}.permit('operate', ARRAY[coalesce(
            (SELECT known.queue_id FROM {schema}.queues AS known WHERE known.queue = of_queue), -1
        )]);
    END IF;
    INSERT INTO {schema}.operator_log (actor, action, queue, group_key, reason, details)
    VALUES (its_actor, its_action, of_queue, of_group, its_reason, its_details)
    RETURNING operation_id INTO number;
    RETURN number;
END
$function$;
