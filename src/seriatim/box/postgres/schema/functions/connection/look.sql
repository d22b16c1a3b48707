-- Refuse a caller that may not look at a queue, by its number or its name, or at any queue where none is named. A
-- name that no queue has is accepted: nothing is seen there.
-- is: stable, definer
CREATE OR REPLACE FUNCTION {schema}.look(what text, of_queue integer, named text) RETURNS void
AS $function$
BEGIN
    IF what NOT IN ('see', 'see_bodies') THEN
        RAISE EXCEPTION 'nobody looks by the right "%"', what USING ERRCODE = 'insufficient_privilege';
    END IF;
    PERFORM {schema}.permit(what, ARRAY(
        SELECT known.queue_id FROM {schema}.queues AS known WHERE known.queue = named OR known.queue_id = of_queue
    ));
END
$function$;
