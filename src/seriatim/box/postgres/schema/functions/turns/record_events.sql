-- Record events of groups that the caller has judged in this transaction, under their locks; the arrays have an item
-- for each event, with the operator's action that caused it. A suspension or resumption that was requested while its
-- group was locked has the operation of the request.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.record_events(
    of_queue integer, of_groups text[], its_kinds text[], its_firsts bigint[], its_lasts bigint[], its_counts bigint[],
    its_times bigint[], of_operations bigint[]
) RETURNS void
AS $function$
#variable_conflict use_column
BEGIN
    PERFORM {schema}.permit('judge', ARRAY[of_queue]);
    INSERT INTO {schema}.events (queue_id, group_key, incarnation, kind, first, last, count, at, operation_id)
    SELECT
        of_queue, told.group_key, coalesce(known.incarnation, 0), told.kind, told.first, told.last, told.count,
        to_timestamp(told.at / 1e6),
        coalesce(told.operation_id, CASE WHEN told.kind IN ('suspended', 'resumed') AND told.first IS NULL THEN (
            SELECT max(log.operation_id) FROM {schema}.operator_log AS log
            JOIN {schema}.queues AS place ON place.queue = log.queue
            WHERE place.queue_id = of_queue AND log.group_key = told.group_key
                AND log.action = CASE told.kind WHEN 'suspended' THEN 'suspend' ELSE 'resume' END
        ) END)
    FROM unnest(of_groups, its_kinds, its_firsts, its_lasts, its_counts, its_times, of_operations)
        WITH ORDINALITY AS told (group_key, kind, first, last, count, at, operation_id, nth)
    LEFT JOIN {schema}.known_groups AS known ON known.queue_id = of_queue AND known.group_key = told.group_key
    ORDER BY told.nth;
END
$function$;
