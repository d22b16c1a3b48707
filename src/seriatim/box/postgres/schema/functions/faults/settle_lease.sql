-- End the first `how_many` messages of a lease: the caller completes them in this transaction. The others stay in it;
-- when it ends, they are free again. FALSE: the lease isn't the caller's any more, and nothing is done.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.settle_lease(
    of_queue integer, of_token bigint, how_many integer, ends boolean
) RETURNS boolean
AS $function$
DECLARE
    lease record;
    remaining bigint[];
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    SELECT * INTO lease FROM {schema}.hold_lease(of_queue, of_token, 10000);
    IF lease.held IS NOT TRUE OR how_many > cardinality(lease.left_ids) THEN
        RETURN FALSE;
    END IF;
    remaining := lease.left_ids[how_many + 1:];
    IF ends OR cardinality(remaining) = 0 THEN
        DELETE FROM {schema}.leases WHERE token = of_token;
        IF lease.of_group IS NULL THEN
            UPDATE {schema}.entries SET visible_at = NULL WHERE entry_id = ANY (remaining) AND queue_id = of_queue;
        END IF;
    ELSE
        UPDATE {schema}.leases SET entry_ids = remaining WHERE token = of_token;
    END IF;
    IF lease.of_group IS NULL THEN
        RETURN TRUE;
    END IF;
    -- Like `hand_out`: ready, if the first unfinished message may be seen. Its first messages are in order.
    UPDATE {schema}.known_groups AS known SET
        ready_rank = CASE WHEN following.hidden THEN NULL ELSE following.rank END,
        due_at = CASE WHEN following.hidden AND following.visible_at < 'infinity'
            THEN least(known.due_at, (extract(epoch FROM following.visible_at) * 1000000)::bigint)
            ELSE known.due_at END,
        touched_at = now()
    FROM (SELECT) AS once LEFT JOIN (
        SELECT one.rank, one.visible_at, one.visible_at > clock_timestamp() AS hidden
        FROM {schema}.entries AS one
        WHERE one.queue_id = of_queue AND one.group_key = lease.of_group AND one.status = 'queued'
            AND one.entry_id <> ALL (lease.left_ids[:how_many])
        ORDER BY one.ordinal LIMIT 1
    ) AS following ON TRUE
    WHERE known.queue_id = of_queue AND known.group_key = lease.of_group;
    RETURN TRUE;
END
$function$;
