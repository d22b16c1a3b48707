-- Return the last committed place number of a group; 0: none. For an unordered queue it is in its newest run,
-- otherwise in its group.
-- is: generic plan, no seqscan, no bitmapscan, no sort
CREATE OR REPLACE FUNCTION {schema}.place_numbers_given(of_queue integer, of_group text) RETURNS bigint
AS $function$
BEGIN
    RETURN coalesce(
        (
            SELECT known.ordinal FROM {schema}.known_groups AS known
            WHERE known.queue_id = of_queue AND known.group_key = of_group
        ), (
            SELECT run.first + run.count - 1 FROM {schema}.place_runs AS run
            WHERE run.queue_id = of_queue AND run.group_key = of_group ORDER BY run.first DESC LIMIT 1
        ), 0
    );
END
$function$;
