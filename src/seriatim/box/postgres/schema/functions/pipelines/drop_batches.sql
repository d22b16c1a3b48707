-- Delete the batches of a queue before this one, or keep them as history, as `complete` does.
-- is: no seqscan
CREATE OR REPLACE FUNCTION {schema}.drop_batches(of_queue integer, before bigint, keep text) RETURNS void
AS $function$
BEGIN
    PERFORM {schema}.complete_entries(
        of_queue, array_agg(entry_id), array_agg(ordinal), array_agg(late), NULL, keep
    )
    FROM {schema}.entries WHERE queue_id = of_queue AND batch < before
    HAVING count(*) > 0;
END
$function$;
