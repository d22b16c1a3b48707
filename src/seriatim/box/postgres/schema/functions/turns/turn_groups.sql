-- Return the stored groups of a turn: `state` has the numbers of the kernel's columns, in their order, and
-- `remembered` is in base64. `is_marked`: the last turn was rolled back. `on_trial`: see the table `trials`. The
-- caller has locked the groups: this reads rows that are younger than the locks.
-- is: definer, generic plan, no seqscan
CREATE OR REPLACE FUNCTION {schema}.turn_groups(
    of_queue integer, of_groups text[]
) RETURNS TABLE (
    group_key text, incarnation integer, state bigint[], skipped bigint[], arrivals bigint, decided bigint[],
    remembered text, is_marked boolean, on_trial boolean, lives text
)
AS $function$
#variable_conflict use_column
BEGIN
    PERFORM {schema}.permit('judge', ARRAY[of_queue]);
    RETURN QUERY
    SELECT
        group_key, incarnation,
        ARRAY[flags, first, next, mark, last, ordinal, since, reports, clock, suspects, suspect], skipped,
        -- A group counts voids since its queue is a gate: all are as long.
        arrivals, (decided || 0::bigint)[:{decided.VOID}],
        encode(remembered, 'base64'),
        known.xmax <> '0' AND {schema}.was_rolled_back(known.xmax),
        EXISTS (
            SELECT FROM {schema}.trials AS trial WHERE trial.queue_id = of_queue AND trial.unit = known.group_key
        ), lives::text
    FROM {schema}.known_groups AS known
    WHERE queue_id = of_queue AND group_key = ANY (of_groups);
END
$function$;
