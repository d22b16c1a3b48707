-- Return, for each of these groups of a gate, the next number that it lets pass; 1: the group isn't known. The caller
-- has the lock of the groups.
-- is: stable, definer
CREATE OR REPLACE FUNCTION {schema}.next_at_gate(of_gate integer, of_groups text[]) RETURNS bigint[]
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_gate]);
    RETURN ARRAY(
        SELECT coalesce(known.next, 1)
        FROM unnest(of_groups) WITH ORDINALITY AS wanted (group_key, place)
        LEFT JOIN {schema}.known_groups AS known ON known.queue_id = of_gate AND known.group_key = wanted.group_key
        ORDER BY wanted.place
    );
END
$function$;
