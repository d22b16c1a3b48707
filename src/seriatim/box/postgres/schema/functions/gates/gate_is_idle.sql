-- Return whether nothing is left at a gate of a group whose queue it serves.
-- is: sql, stable
CREATE OR REPLACE FUNCTION {schema}.gate_is_idle(of_gate integer, of_origin integer, of_group text) RETURNS boolean
RETURN {schema}.place_numbers_given(of_origin, of_group) < coalesce((
    SELECT known.next FROM {schema}.known_groups AS known
    WHERE known.queue_id = of_gate AND known.group_key = of_group AND known.flags & {flag.SUSPENDED|FAULTED} = 0
), 1) AND NOT EXISTS (
    SELECT FROM {schema}.entries AS entry WHERE entry.queue_id = of_gate AND entry.group_key = of_group
);
