-- Return the open places of a gate's group. `places`: how many numbers were given from the next one on: they are
-- open, or wait for one that is. `open_places`: how many of them are open; `open_number`: the first; `open_us`: since
-- when its oldest message is in its present queue. NULL: the queue is no gate, or the caller doesn't see it; the last
-- two: no place is open.
-- is: stable, definer, generic plan, no seqscan, no bitmapscan
CREATE OR REPLACE FUNCTION {schema}.open_places(
    of_gate integer, of_group text,
    OUT places bigint, OUT open_places bigint, OUT open_number bigint, OUT open_us bigint
)
AS $function$
DECLARE
    origin integer := (SELECT way.queue_id FROM {schema}.ways AS way WHERE way.gate_id = of_gate AND way.is_origin);
    following bigint;
BEGIN
    IF origin IS NULL OR of_gate <> ALL ({schema}.sees('see')) THEN
        RETURN;
    END IF;
    following := coalesce((
        SELECT known.next FROM {schema}.known_groups AS known
        WHERE known.queue_id = of_gate AND known.group_key = of_group
    ), 1);
    places := greatest({schema}.place_numbers_given(origin, of_group) + 1 - following, 0);
    SELECT count(DISTINCT coalesce(entry.origin_number, entry.ordinal)),
        min(coalesce(entry.origin_number, entry.ordinal))
    INTO open_places, open_number
    FROM {schema}.entries AS entry
    WHERE {is_on_way(entry)}
        AND coalesce(entry.origin_number, entry.ordinal) >= following;
    open_us := (
        SELECT min(entry.rank + (entry.priority - 5) * 10000000) FROM {schema}.entries AS entry
        WHERE {is_on_way(entry)}
            AND coalesce(entry.origin_number, entry.ordinal) = open_number
    );
END
$function$;
