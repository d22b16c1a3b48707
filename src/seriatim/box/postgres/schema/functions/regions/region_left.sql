-- Return how many messages of sessions below a key the box still has: for the other box, and to be handed out. Counted
-- up to 1,000. `is_closed`: these sessions take no messages any more; a box that was restored since may have lost that.
-- is: stable, own path
CREATE OR REPLACE FUNCTION {schema}.region_left(
    of_name text, of_queue text, before text, OUT outgoing bigint, OUT queued bigint, OUT is_closed boolean
)
AS $function$
DECLARE
    its_queue integer := {schema}.region_queue_id(of_name, of_queue);
BEGIN
    is_closed := EXISTS (
        SELECT FROM {schema}.region_queues AS regional
        WHERE regional.queue_id = its_queue AND regional.closed_before >= before COLLATE "C"
    );
    SELECT count(*) INTO outgoing FROM (
        SELECT FROM {schema}.region_outbox AS sent
        JOIN {schema}.region_numbers AS one USING (arrival_id, position)
        WHERE sent.name = of_name AND one.queue_id = its_queue AND one.session < before COLLATE "C" LIMIT 1000
    ) AS found;
    SELECT count(*) INTO queued FROM (
        (
            SELECT FROM {schema}.entries AS entry
            WHERE entry.queue_id = its_queue AND entry.group_key < before COLLATE "C" LIMIT 1000
        ) UNION ALL (
            SELECT FROM {schema}.region_numbers AS one
            WHERE one.queue_id = its_queue AND one.session < before COLLATE "C" AND one.beside AND NOT one.withdrawn
            LIMIT 1000
        )
    ) AS found;
END
$function$;
