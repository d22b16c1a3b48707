-- Complete the messages of a lease through a position, as `at_lease` has returned it.
CREATE OR REPLACE FUNCTION {schema}.settle_through(lease record, through integer) RETURNS void
AS $function$
DECLARE
    begun integer := lease.done + 1;
BEGIN
    IF through >= begun AND {schema}.settle_lease(lease.queue_id, lease.token, through - lease.done, FALSE) THEN
        PERFORM {schema}.complete_entries(
            lease.queue_id, lease.entry_ids[begun:through], lease.ordinals[begun:through], lease.lates[begun:through],
            lease.incarnation, (
                SELECT place.definition ->> 'keep' FROM {schema}.queues AS place
                WHERE place.queue_id = lease.queue_id
            )
        );
    END IF;
END
$function$;
