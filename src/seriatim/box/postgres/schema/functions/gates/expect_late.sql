-- Mark the results of these places as late at the gate: messages on the way to it were put back, and it has passed
-- them.
-- is: definer
CREATE OR REPLACE FUNCTION {schema}.expect_late(of_gate integer, of_groups text[], numbers bigint[]) RETURNS void
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_gate]);
    INSERT INTO {schema}.late_places (gate_id, group_key, number)
    SELECT of_gate, place.group_key, place.number FROM unnest(of_groups, numbers) AS place (group_key, number)
    ON CONFLICT DO NOTHING;
END
$function$;
