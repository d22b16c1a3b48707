-- Return for each group of an origin queue the first number that isn't handed out: it is too far ahead of the next
-- one at the gate.
-- is: stable, definer
CREATE OR REPLACE FUNCTION {schema}.gate_bounds(
    of_origin integer, of_gate integer, of_groups text[], open_at_most integer
)
RETURNS bigint[]
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_origin]);
    RETURN ARRAY(
        SELECT coalesce(known.next, 1) + open_at_most
        FROM unnest(of_groups) WITH ORDINALITY AS wanted (group_key, place)
        LEFT JOIN {schema}.known_groups AS known ON known.queue_id = of_gate AND known.group_key = wanted.group_key
        ORDER BY wanted.place
    );
END
$function$;
