-- Make results of closed places, up to a number and of another one, arrived messages: those for an operator's action,
-- and those of a gate with a gate of its own, where they begin on the way to that one.
-- is: sql
CREATE OR REPLACE FUNCTION {schema}.leave_places(
    of_gate integer, of_group text, next_gate integer, last bigint, one bigint DEFAULT NULL
)
RETURNS void
AS $function$
    UPDATE {schema}.entries AS entry SET
        status = 'arrived', gate_id = coalesce(next_gate, entry.gate_id),
        origin_number = CASE WHEN next_gate IS NULL THEN entry.origin_number END
    WHERE entry.queue_id = of_gate AND entry.group_key = of_group AND entry.status = 'placed'
        AND (entry.origin_number <= last OR entry.origin_number = one)
$function$;
