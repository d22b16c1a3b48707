-- Lock the next groups of a queue that have something to do, or the named one. `unrouted`: something that was published
-- through SQL waits to be routed; `settled`, `unsettled`: where to look for that. `many`: more messages wait to be
-- judged than a turn of one group is worth.
-- is: definer, generic plan, no seqscan
CREATE OR REPLACE FUNCTION {schema}.lock_groups(
    of_queue integer, named text, how_many integer, at_us bigint, from_rank bigint, settled xid8, unsettled xid8[],
    OUT group_keys text[], OUT now_us bigint, OUT isolation text, OUT version bigint, OUT unrouted boolean,
    OUT many boolean
)
AS $function$
DECLARE
    -- More is judged at once only by a transaction that has received nothing yet.
    is_first boolean := named IS NULL AND pg_current_xact_id_if_assigned() IS NULL;
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    now_us := coalesce(at_us, {schema}.now_us());
    isolation := current_setting('transaction_isolation');
    group_keys := CASE
        WHEN named IS NULL THEN {schema}.lock_next(of_queue, how_many, now_us, from_rank)
        WHEN {schema}.lock_group(of_queue, named, now_us) THEN ARRAY[named]
        ELSE ARRAY[]::text[]
    END;
    SELECT
        (SELECT max(change.version) FROM {schema}.changes AS change),
        {schema}.is_left(settled, unsettled),
        is_first AND EXISTS (
            SELECT FROM {schema}.entries AS entry
            WHERE entry.queue_id = of_queue AND entry.status = 'arrived' AND entry.rank >= from_rank
            ORDER BY entry.rank OFFSET 40
        )
    INTO version, unrouted, many;
END
$function$;
