-- Delete messages that wait to be routed, and in whose place others wait everywhere; with their bodies.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.drop_routed(arrival_ids bigint[], positions bigint[]) RETURNS void
AS $function$
BEGIN
    PERFORM {schema}.permit('route', ARRAY[]::integer[]);
    -- The clean-up finds no reference to them, and deletes the bodies.
    DELETE FROM {schema}.to_route AS known USING unnest(arrival_ids, positions) AS message (arrival_id, position)
    WHERE known.arrival_id = ANY (ARRAY[message.arrival_id]) AND known.position = ANY (ARRAY[message.position]);
END
$function$;
