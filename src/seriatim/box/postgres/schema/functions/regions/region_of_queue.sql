-- Return the regions that a queue belongs to; NULL: none. For roles that see it.
-- is: stable, definer
CREATE OR REPLACE FUNCTION {schema}.region_of_queue(of_queue integer) RETURNS text
AS $function$
BEGIN
    PERFORM {schema}.permit('see', ARRAY[of_queue]);
    RETURN (SELECT regional.name FROM {schema}.region_queues AS regional WHERE regional.queue_id = of_queue);
END
$function$;
