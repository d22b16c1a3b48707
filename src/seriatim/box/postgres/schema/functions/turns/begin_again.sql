-- Note that groups have begun again, a number of times each: they are in later incarnations. The caller has judged
-- them in this transaction.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.begin_again(of_queue integer, of_groups text[], its_times integer[]) RETURNS void
AS $function$
BEGIN
    PERFORM {schema}.permit('judge', ARRAY[of_queue]);
    UPDATE {schema}.known_groups AS known SET incarnation = known.incarnation + begun.times
    FROM unnest(of_groups, its_times) AS begun (group_key, times)
    WHERE known.queue_id = of_queue AND known.group_key = ANY (ARRAY[begun.group_key]);
END
$function$;
