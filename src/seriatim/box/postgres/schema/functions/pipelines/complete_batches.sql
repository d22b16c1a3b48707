-- Complete the batches of a pipeline through a number. Earlier ones are deleted; this one stays until the next is
-- done.
CREATE OR REPLACE FUNCTION {schema}.complete_batches(
    of_queue integer, by_reader text, through bigint, keep text
) RETURNS boolean
AS $function$
BEGIN
    UPDATE {schema}.readers SET done = least(greatest(done, through), batch)
    WHERE queue_id = of_queue AND reader = by_reader;
    IF NOT FOUND THEN
        RETURN FALSE;
    END IF;
    PERFORM {schema}.drop_batches(of_queue, through, keep);
    RETURN TRUE;
END
$function$;
