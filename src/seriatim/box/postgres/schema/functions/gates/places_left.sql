-- Return how many places of an origin group haven't passed its gate: they are open, or wait there. The caller has
-- locked the gate's group.
-- is: stable, definer
CREATE OR REPLACE FUNCTION {schema}.places_left(of_gate integer, of_origin integer, of_group text) RETURNS bigint
AS $function$
BEGIN
    PERFORM {schema}.permit('see', ARRAY[of_gate]);
    RETURN greatest({schema}.place_numbers_given(of_origin, of_group) + 1 - coalesce((
        SELECT known.next FROM {schema}.known_groups AS known
        WHERE known.queue_id = of_gate AND known.group_key = of_group
    ), 1), 0);
END
$function$;
