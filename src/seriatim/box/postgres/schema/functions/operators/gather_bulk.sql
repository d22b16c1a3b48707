-- Note an operation, which does nothing before it is begun; return its number.
-- is: definer
CREATE OR REPLACE FUNCTION {schema}.gather_bulk(
    its_action text, its_at_once boolean, its_filter text, its_actor text, its_reason text, of_queues integer[]
) RETURNS bigint
AS $function$
DECLARE
    number bigint;
BEGIN
    PERFORM {schema}.permit('operate', of_queues);
    INSERT INTO {schema}.bulk_operations (action, at_once, filter, actor, reason, queue_ids)
    VALUES (its_action, its_at_once, its_filter::jsonb, its_actor, its_reason, of_queues)
    RETURNING bulk_id INTO number;
    RETURN number;
END
$function$;
