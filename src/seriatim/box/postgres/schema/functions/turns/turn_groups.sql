-- What is remembered of the groups of a turn. The caller has locked them: what this reads is younger than the lock.
-- is: definer, generic plan, no seqscan
CREATE OR REPLACE FUNCTION {schema}.turn_groups(
    of_queue integer, of_groups text[]
) RETURNS TABLE (
    group_key text, incarnation integer, state bigint[], skipped bigint[], arrivals bigint, decided bigint[],
    remembered text
)
AS $function$
#variable_conflict use_column
BEGIN
    PERFORM {schema}.permit('judge', ARRAY[of_queue]);
    RETURN QUERY
    SELECT
        group_key, incarnation, ARRAY[flags, first, next, mark, last, ordinal, since, reports, clock, suspects, suspect], skipped,
        arrivals, (decided || 0::bigint)[:8], -- a group counts voids since its queue is a gate: all are as long
        encode(remembered, 'base64')
    FROM {schema}.known_groups
    WHERE queue_id = of_queue AND group_key = ANY (of_groups);
END
$function$;
