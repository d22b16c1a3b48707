-- Complete one message of a queue that keeps nothing, as `complete_entries` does, without arrays.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.complete_one(of_queue integer, of_entry bigint) RETURNS void
AS $function$
DECLARE
    gone record;
BEGIN
    IF NOT {schema}.is_owner() THEN
        PERFORM {schema}.permit_entries('receive', of_queue, ARRAY[of_entry]);
    END IF;
    DELETE FROM {schema}.entries WHERE entry_id = of_entry RETURNING arrival_id, position INTO gone;
    DELETE FROM {schema}.spool AS stored
    WHERE stored.arrival_id = gone.arrival_id AND stored.position = gone.position AND stored.destinations = 1;
    IF NOT FOUND THEN
        INSERT INTO {schema}.dropped (arrival_id, position)
        SELECT stored.arrival_id, stored.position FROM {schema}.spool AS stored
        WHERE stored.arrival_id = gone.arrival_id AND stored.position = gone.position;
    END IF;
END
$function$;
