-- Return, for each of some groups, the entry of the message behind the hole that ends at its number in `of_lasts`;
-- NULL: there is none.
-- is: stable, definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.behind_holes(of_queue integer, of_groups text[], of_lasts bigint[]) RETURNS bigint[]
AS $function$
BEGIN
    PERFORM {schema}.permit('judge', ARRAY[of_queue]);
    RETURN ARRAY(
        SELECT (
            SELECT entry.entry_id FROM {schema}.entries AS entry
            WHERE entry.queue_id = of_queue AND entry.group_key = hole.of_group AND entry.sequence > hole.of_last
            ORDER BY entry.sequence LIMIT 1
        )
        FROM unnest(of_groups, of_lasts) WITH ORDINALITY AS hole (of_group, of_last, place) ORDER BY hole.place
    );
END
$function$;
