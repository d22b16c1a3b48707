-- Return whether messages in the transmission queue wait for a service of that queue.
-- is: stable, definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.is_awaited(of_queue integer) RETURNS boolean
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    RETURN EXISTS (
        SELECT FROM {schema}.known_services AS place JOIN {schema}.known_transmission AS one ON one.to_service = place.service
        WHERE place.queue_id = of_queue
    );
END
$function$;
