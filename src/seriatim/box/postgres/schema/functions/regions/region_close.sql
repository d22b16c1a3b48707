-- Let the sessions of a queue below a key take no messages any more, unless some wait for their numbers: how many do. The
-- locks wait for all who have written numbers, and who comes later sees the bound.
-- is: own path, lock timeout 2s
CREATE OR REPLACE FUNCTION {schema}.region_close(of_name text, of_queue text, before text) RETURNS bigint
AS $function$
DECLARE
    its_queue integer := {schema}.region_queue_id(of_name, of_queue);
    waiting bigint;
BEGIN
    LOCK TABLE {schema}.region_sessions, {schema}.region_waiting IN SHARE ROW EXCLUSIVE MODE;
    SELECT count(*) INTO waiting FROM {schema}.region_waiting AS one
    WHERE one.queue_id = its_queue AND one.session < before COLLATE "C";
    UPDATE {schema}.region_queues AS regional
    SET closed_before = greatest(regional.closed_before, before COLLATE "C")
    WHERE regional.queue_id = its_queue AND waiting = 0;
    RETURN waiting;
END
$function$;
