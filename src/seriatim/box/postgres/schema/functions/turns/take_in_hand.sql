-- Mark the first message of a turn, as `mark_entry` does, for a caller with the right to receive. `begun`: the dialogs
-- of which it is the first message; they converse from now on.
-- is: definer, generic plan, no seqscan
CREATE OR REPLACE FUNCTION {schema}.take_in_hand(
    of_queue integer, of_group text, of_entry bigint, begun uuid[]
) RETURNS bigint
AS $function$
BEGIN
    PERFORM {schema}.permit_entries('receive', of_queue, ARRAY[of_entry]);
    IF cardinality(begun) > 0 THEN
        PERFORM {schema}.converse(begun);
    END IF;
    RETURN {schema}.mark_entry(of_queue, of_group, of_entry, (
        SELECT entry.xmax::text::bigint FROM {schema}.entries AS entry WHERE entry.entry_id = of_entry
    ));
END
$function$;
