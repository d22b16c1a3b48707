-- Note the results of groups of an operation; a group without one is acted on by itself. When none is left, the
-- operation ends. Each group gets its result once. Nothing is noted of an operation that has ended: a portion that
-- failed is noted in a transaction that hasn't claimed it.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.settle_bulk(
    of_bulk bigint, of_queue integer, of_groups text[], its_results text[], its_whys text[], of_operations bigint[]
) RETURNS void
AS $function$
BEGIN
    PERFORM {schema}.permit('operate', of_queue || coalesce(
        (SELECT known.queue_ids FROM {schema}.bulk_operations AS known WHERE known.bulk_id = of_bulk), ARRAY[-1]
    ));
    PERFORM FROM {schema}.bulk_operations AS one WHERE one.bulk_id = of_bulk AND one.ended_at IS NULL FOR UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    WITH settled AS (
        UPDATE {schema}.bulk_groups AS one
        SET result = told.result, why = told.why, operation_id = told.operation_id, alone = one.alone
            OR told.result IS NULL
        FROM unnest(of_groups, its_results, its_whys, of_operations) AS told (group_key, result, why, operation_id)
        -- The first ANY, so that only these are read, and not all that are left.
        WHERE one.bulk_id = of_bulk AND one.queue_id = of_queue AND one.group_key = ANY (of_groups)
            AND one.group_key = told.group_key AND one.result IS NULL
        RETURNING one.result
    )
    UPDATE {schema}.bulk_operations AS one SET
        moved_at = clock_timestamp(), done = one.done + more.done, refused = one.refused + more.refused,
        changed = one.changed + more.changed,
        ended_at = CASE
            WHEN one.done + one.refused + one.changed + more.done + more.refused + more.changed = one.groups
            THEN clock_timestamp()
        END
    FROM (
        SELECT count(*) FILTER (WHERE settled.result = 'done') AS done,
            count(*) FILTER (WHERE settled.result = 'refused') AS refused,
            count(*) FILTER (WHERE settled.result = 'changed') AS changed
        FROM settled
    ) AS more
    WHERE one.bulk_id = of_bulk;
END
$function$;
