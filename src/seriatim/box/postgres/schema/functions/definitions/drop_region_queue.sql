-- Delete a queue's rows of the regions.
-- is: own path
CREATE OR REPLACE FUNCTION {schema}.drop_region_queue() RETURNS trigger
AS $function$
BEGIN
    DELETE FROM {schema}.region_queues WHERE queue_id = OLD.queue_id;
    IF FOUND THEN
        DELETE FROM {schema}.region_numbers WHERE queue_id = OLD.queue_id;
        DELETE FROM {schema}.region_sessions WHERE queue_id = OLD.queue_id;
        DELETE FROM {schema}.region_waiting WHERE queue_id = OLD.queue_id;
    END IF;
    RETURN NULL;
END
$function$;
