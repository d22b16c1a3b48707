-- Return the first open place of a gate's group; NULL: none is open. Messages in hand, which the asking transaction
-- completes, count as done.
-- is: stable, no seqscan, no bitmapscan, no sort
CREATE OR REPLACE FUNCTION {schema}.first_open_at_gate(of_gate integer, of_group text, in_hand bigint[]) RETURNS bigint
AS $function$
BEGIN
    RETURN (
        SELECT coalesce(entry.origin_number, entry.ordinal) FROM {schema}.entries AS entry
        WHERE {is_on_way(entry)}
            AND coalesce(entry.origin_number, entry.ordinal) >= coalesce((
                SELECT known.next FROM {schema}.known_groups AS known
                WHERE known.queue_id = of_gate AND known.group_key = of_group
            ), 1)
            AND entry.entry_id <> ALL (in_hand)
        ORDER BY coalesce(entry.origin_number, entry.ordinal) LIMIT 1
    );
END
$function$;
