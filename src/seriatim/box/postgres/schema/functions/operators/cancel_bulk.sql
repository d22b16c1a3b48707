-- Cancel an operation: the present portion is finished, and then no more is done. Return whether it wasn't over.
-- is: definer
CREATE OR REPLACE FUNCTION {schema}.cancel_bulk(of_bulk bigint, its_actor text, its_reason text) RETURNS boolean
AS $function$
BEGIN
    PERFORM {schema}.permit('operate', coalesce(
        (SELECT known.queue_ids FROM {schema}.bulk_operations AS known WHERE known.bulk_id = of_bulk), ARRAY[-1]
    ));
    UPDATE {schema}.bulk_operations AS one
    SET ended_at = clock_timestamp(), cancelled_by = its_actor, cancelled_because = its_reason
    WHERE one.bulk_id = of_bulk AND one.ended_at IS NULL;
    RETURN FOUND;
END
$function$;
