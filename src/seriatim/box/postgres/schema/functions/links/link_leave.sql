-- Remove entries from their queues for good, and bodies without other references, as `complete` does in a queue that
-- keeps nothing.
-- is: generic plan, no seqscan, no jit
CREATE OR REPLACE FUNCTION {schema}.link_leave(entry_ids bigint[]) RETURNS void
AS $function$
BEGIN
    WITH gone AS (
        DELETE FROM {schema}.entries WHERE entry_id = ANY (entry_ids) RETURNING arrival_id, position
    ), alone AS (
        DELETE FROM {schema}.spool AS stored USING gone
        WHERE stored.arrival_id = ANY (ARRAY[gone.arrival_id]) AND stored.position = ANY (ARRAY[gone.position])
            AND stored.destinations = 1
        RETURNING stored.arrival_id, stored.position
    )
    INSERT INTO {schema}.dropped (arrival_id, position)
    SELECT arrival_id, position FROM gone EXCEPT SELECT arrival_id, position FROM alone;
END
$function$;
