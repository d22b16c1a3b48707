-- Leases: claims that are committed, for handlers that take long.

-- Make a lease of what was handed out, the first `how_many` of it, and put all of it back. The caller has it locked, and
-- commits. A message without a group is hidden meanwhile.
CREATE FUNCTION {schema}.claim_lease(
    of_queue integer, of_group text, of_entries bigint[], ordinals bigint[], lates boolean[], how_many integer,
    of_worker text, period interval, OUT token bigint, OUT incarnation integer
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    PERFORM {schema}.permit_entries(of_queue, of_entries);
    IF of_group IS NULL THEN
        UPDATE {schema}.entries AS entry SET visible_at = 'infinity'
        WHERE entry.entry_id = ANY (of_entries[:how_many]) AND entry.queue_id = of_queue;
    ELSE
        PERFORM {schema}.put_back(of_queue, of_group, of_entries, ordinals, lates);
        incarnation := (
            SELECT known.incarnation FROM {schema}.known_groups AS known
            WHERE known.queue_id = of_queue AND known.group_key = of_group
        );
    END IF;
    INSERT INTO {schema}.leases AS lease (queue_id, group_key, entry_ids, worker, expires_at)
    VALUES (of_queue, of_group, of_entries[:how_many], of_worker, clock_timestamp() + period)
    RETURNING lease.token INTO token;
END
$function$;

-- Put off the end of leases of a queue. Answers with those that are still there; one that has run out stays so.
CREATE FUNCTION {schema}.renew_leases(of_queue integer, tokens bigint[], period interval) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    kept bigint[];
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    WITH renewed AS (
        UPDATE {schema}.leases AS lease SET expires_at = clock_timestamp() + period
        WHERE lease.token = ANY (tokens) AND lease.queue_id = of_queue AND lease.expires_at > clock_timestamp()
        RETURNING lease.token
    )
    SELECT coalesce(array_agg(renewed.token), '{{}}') INTO kept FROM renewed;
    RETURN kept;
END
$function$;

-- Is a lease still its worker's? Locks nothing.
CREATE FUNCTION {schema}.is_held(of_queue integer, of_token bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    RETURN EXISTS (
        SELECT FROM {schema}.leases
        WHERE token = of_token AND queue_id = of_queue AND expires_at > clock_timestamp()
    );
END
$function$;

-- Lock what a lease is of, and look whether it is there: its group first, as everybody does, and then its row. That lock
-- keeps everybody away until the transaction ends, though the lease may run out before. Answers with no row, or FALSE in
-- `held`, where it isn't the caller's any more.
CREATE FUNCTION {schema}.hold_lease(
    of_queue integer, of_token bigint, patience_ms integer, OUT held boolean, OUT of_group text, OUT left_ids bigint[]
)
LANGUAGE plpgsql
SET enable_seqscan = off
AS $function$
DECLARE
    before text := current_setting('lock_timeout');
BEGIN
    SELECT group_key INTO of_group FROM {schema}.leases WHERE token = of_token AND queue_id = of_queue;
    PERFORM set_config('lock_timeout', patience_ms::text, TRUE);
    IF of_group IS NOT NULL THEN
        PERFORM pg_advisory_xact_lock({schema}.group_lock(of_queue, of_group));
    END IF;
    SELECT expires_at > clock_timestamp(), entry_ids INTO held, left_ids
    FROM {schema}.leases WHERE token = of_token AND queue_id = of_queue FOR UPDATE;
    PERFORM set_config('lock_timeout', before, TRUE);
EXCEPTION WHEN lock_not_available THEN
    held := NULL;
END
$function$;

-- The first `how_many` messages of a lease are done: the caller completes them in this transaction. What is left stays in
-- it; where it ends, that is free again. FALSE: the lease isn't the caller's any more, and nothing is done.
CREATE FUNCTION {schema}.settle_lease(of_queue integer, of_token bigint, how_many integer, ends boolean) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
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
    -- As `hand_out` leaves it: ready, if the first that isn't done may be seen. Its first messages are in order.
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

-- Take a lease away: its messages are where they were before. `expired`: only one that has run out. FALSE: there is none,
-- or the group isn't free in time.
CREATE FUNCTION {schema}.drop_lease(of_queue integer, of_token bigint, expired boolean, patience_ms integer) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    lease record;
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    SELECT * INTO lease FROM {schema}.hold_lease(of_queue, of_token, patience_ms);
    IF lease.held IS NULL OR expired AND lease.held THEN
        RETURN FALSE;
    END IF;
    DELETE FROM {schema}.leases WHERE token = of_token;
    IF lease.of_group IS NULL THEN
        UPDATE {schema}.entries SET visible_at = NULL WHERE entry_id = ANY (lease.left_ids) AND queue_id = of_queue;
    END IF;
    PERFORM {schema}.call_waiters(ARRAY[of_queue], 1);
    RETURN TRUE;
END
$function$;

-- The leases of a queue that have run out, each with the message that its handler had.
CREATE FUNCTION {schema}.expired_leases(of_queue integer)
RETURNS TABLE (token bigint, group_key text, entry_id bigint, worker text, expired_at timestamptz)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    RETURN QUERY
    SELECT lease.token, lease.group_key, lease.entry_ids[1], lease.worker, lease.expires_at
    FROM {schema}.leases AS lease
    WHERE lease.queue_id = of_queue AND lease.expires_at <= clock_timestamp()
    ORDER BY lease.expires_at;
END
$function$;
