-- Claim an operation until the transaction ends, or the one that has waited longest, and return the next portion of
-- its groups, all of one queue. No row: nothing is left, others are at it, or the caller may not operate on its
-- queues.
-- is: definer, no seqscan, no bitmapscan, no sort
CREATE OR REPLACE FUNCTION {schema}.claim_bulk(of_bulk bigint, at_most integer, at_most_alone integer) RETURNS TABLE (
    number bigint, action text, at_once boolean, actor text, reason text, of_queue integer, alone boolean,
    group_keys text[],
    as_seen text[]
)
AS $function$
#variable_conflict use_column
DECLARE
    one {schema}.bulk_operations;
    first record;
BEGIN
    PERFORM {schema}.permit('operate', '{}');
    SELECT * INTO one FROM {schema}.bulk_operations AS known
    WHERE known.begun_at IS NOT NULL AND known.ended_at IS NULL AND (of_bulk IS NULL OR known.bulk_id = of_bulk)
        AND ({schema}.is_owner() OR known.queue_ids <@ {schema}.permitted('operate'))
    ORDER BY coalesce(known.moved_at, known.begun_at), known.bulk_id
    LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    -- Groups that are acted on one by one come last.
    SELECT rest.alone, rest.queue_id INTO first FROM {schema}.bulk_groups AS rest
    WHERE rest.bulk_id = one.bulk_id AND rest.result IS NULL
    ORDER BY rest.alone, rest.queue_id, rest.group_key LIMIT 1;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    RETURN QUERY
    SELECT one.bulk_id, one.action, one.at_once, one.actor, one.reason, first.queue_id, first.alone,
        array_agg(next.group_key ORDER BY next.group_key), array_agg(next.seen ORDER BY next.group_key)
    FROM (
        SELECT rest.group_key, rest.seen FROM {schema}.bulk_groups AS rest
        WHERE rest.bulk_id = one.bulk_id AND rest.result IS NULL AND rest.alone = first.alone
            AND rest.queue_id = first.queue_id
        ORDER BY rest.group_key LIMIT CASE WHEN first.alone THEN at_most_alone ELSE at_most END
    ) AS next;
END
$function$;
