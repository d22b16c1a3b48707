-- Return whether an attempt of a message has ended its process, or taken too long: then its last one is made alone in
-- a process.
-- is: stable, definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.has_ended_its_worker(of_queue integer, of_entry bigint) RETURNS boolean
AS $function$
BEGIN
    PERFORM {schema}.permit_entries('receive', of_queue, ARRAY[of_entry]);
    RETURN EXISTS (
        SELECT FROM {schema}.faults AS fault
        WHERE fault.entry_id = of_entry AND fault.queue_id = of_queue AND fault.kind IN ('poison', 'timeout')
    );
END
$function$;
