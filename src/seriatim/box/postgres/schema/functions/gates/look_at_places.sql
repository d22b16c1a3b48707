-- Request a look at groups of a gate: the messages that they wait for may be there.
-- is: definer
CREATE OR REPLACE FUNCTION {schema}.look_at_places(of_gate integer, of_groups text[]) RETURNS void
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_gate]);
    INSERT INTO {schema}.requests (queue_id, group_key, action, rank)
    SELECT of_gate, group_key, 'look', {schema}.now_us() FROM unnest(of_groups) AS wanted (group_key);
    PERFORM {schema}.call_waiters(ARRAY[of_gate], cardinality(of_groups));
END
$function$;
