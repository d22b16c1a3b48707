-- The last place number that was given in a group, as far as it is committed; 0: none. Of an unordered queue its newest
-- run tells, of another one its group.
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
