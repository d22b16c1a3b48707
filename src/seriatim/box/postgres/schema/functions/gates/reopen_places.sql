-- Open places of a gate again: their waiting results wait once more for the places to be closed. The caller has the
-- lock of the groups.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.reopen_places(of_gate integer, of_groups text[], numbers bigint[]) RETURNS void
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_gate]);
    WITH again AS (
        UPDATE {schema}.entries AS entry SET
            status = 'placed', arrival = NULL, gate_id = of_gate, origin_number = entry.sequence
        FROM unnest(of_groups, numbers) AS place (group_key, number)
        WHERE entry.queue_id = of_gate AND entry.group_key = place.group_key AND entry.status = 'held'
            AND NOT entry.late
            AND entry.sequence = place.number
        RETURNING entry.group_key
    )
    UPDATE {schema}.known_groups AS known SET arrivals = known.arrivals - counted.results
    FROM (SELECT again.group_key, count(*) AS results FROM again GROUP BY again.group_key) AS counted
    WHERE known.queue_id = of_gate AND known.group_key = counted.group_key;
END
$function$;
