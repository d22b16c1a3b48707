-- Record an operator's action on many groups of a queue, a row for each; return the numbers of the rows, in the order
-- of the groups.
-- is: definer
CREATE OR REPLACE FUNCTION {schema}.log_operations(
    its_actor text, its_action text, of_queue text, of_groups text[], its_reason text, of_details text[]
) RETURNS bigint[]
AS $function$
BEGIN
    PERFORM {schema}.permit('operate', ARRAY[coalesce(
        (SELECT known.queue_id FROM {schema}.queues AS known WHERE known.queue = of_queue), -1
    )]);
    RETURN ARRAY(
        SELECT {schema}.log_operation(its_actor, its_action, of_queue, one.group_key, its_reason, one.details::jsonb)
        FROM unnest(of_groups, of_details) WITH ORDINALITY AS one (group_key, details, nth) ORDER BY one.nth
    );
END
$function$;
