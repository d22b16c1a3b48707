-- Queue unprocessed messages again that were handed out, unless that was rolled back already.
-- is: definer, generic plan, no seqscan, no bitmapscan, no hashjoin, no mergejoin
CREATE OR REPLACE FUNCTION {schema}.put_back(
    of_queue integer, of_group text, entry_ids bigint[], ordinals bigint[], lates boolean[]
) RETURNS void
AS $function$
BEGIN
    IF NOT {schema}.is_in_hand(of_queue, of_group, entry_ids, ordinals) THEN
        RETURN;
    END IF;
    PERFORM {schema}.queue_again(of_queue, of_group, entry_ids, ordinals, lates);
END
$function$;
