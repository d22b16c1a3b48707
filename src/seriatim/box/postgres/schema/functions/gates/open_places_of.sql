-- Return for all groups of a gate what `open_places` returns for one: how many places are open, and since when the
-- oldest of their messages is in its present queue.
-- is: stable, definer, generic plan, no seqscan, no bitmapscan
CREATE OR REPLACE FUNCTION {schema}.open_places_of(of_gate integer, OUT open_places bigint, OUT open_us bigint)
AS $function$
BEGIN
    IF of_gate <> ALL ({schema}.sees('see')) OR NOT EXISTS (
        SELECT FROM {schema}.ways AS way WHERE way.gate_id = of_gate AND way.is_origin
    ) THEN
        RETURN;
    END IF;
    SELECT count(*), min(one.since_us) INTO open_places, open_us FROM (
        SELECT
            coalesce(entry.origin_group, entry.group_key) AS its_group,
            coalesce(entry.origin_number, entry.ordinal) AS number,
            min(entry.rank + (entry.priority - 5) * 10000000) AS since_us
        FROM {schema}.entries AS entry
        WHERE entry.gate_id = of_gate AND entry.gate_id <> entry.queue_id
            AND coalesce(entry.origin_number, entry.ordinal) IS NOT NULL
        GROUP BY 1, 2
    ) AS one
    -- A living message of a place that was passed is late when it arrives.
    WHERE one.number >= coalesce((
        SELECT known.next FROM {schema}.known_groups AS known
        WHERE known.queue_id = of_gate AND known.group_key = one.its_group
    ), 1);
END
$function$;
