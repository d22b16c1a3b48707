-- Begin an operation; return whether it was waiting for that.
-- is: definer
CREATE OR REPLACE FUNCTION {schema}.begin_bulk(of_bulk bigint) RETURNS boolean
AS $function$
BEGIN
    PERFORM {schema}.permit('operate', coalesce(
        (SELECT known.queue_ids FROM {schema}.bulk_operations AS known WHERE known.bulk_id = of_bulk), ARRAY[-1]
    ));
    UPDATE {schema}.bulk_operations AS one
    SET begun_at = clock_timestamp(), ended_at = CASE WHEN one.groups = 0 THEN clock_timestamp() END
    WHERE one.bulk_id = of_bulk AND one.begun_at IS NULL AND one.ended_at IS NULL;
    RETURN FOUND;
END
$function$;
