-- Leases: claims that are committed, for handlers that take long.

-- Claims of workers whose handlers take long. What is in one is queued again at once, in the same commit, and nobody
-- else gets it while the row is there: so a lease that is taken away, however, has left everything in its place.
CREATE SEQUENCE {schema}.fences;

-- `token`: the fencing token, higher with every lease. `group_key`: NULL where the queue has no groups; else one lease at
-- a time. `entry_ids`: what isn't done, in order. `expires_at`: unless its worker puts it off before.
CREATE TABLE {schema}.leases (
    token bigint PRIMARY KEY DEFAULT nextval('{schema}.fences'),
    queue_id integer NOT NULL,
    group_key text COLLATE "C",
    entry_ids bigint[] NOT NULL CHECK (cardinality(entry_ids) > 0),
    worker text NOT NULL,
    claimed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz NOT NULL,
    UNIQUE (queue_id, group_key)
) WITH (fillfactor = 50);

-- Does a worker have this group in a lease, even one that has run out? Whoever counts its attempt takes that away.
CREATE FUNCTION {schema}.is_leased(of_queue integer, of_group text) RETURNS boolean
LANGUAGE plpgsql VOLATILE
AS $function$
BEGIN
    RETURN EXISTS (SELECT FROM {schema}.leases WHERE queue_id = of_queue AND group_key = of_group);
END
$function$;

-- Lock a group that has something to do. What it finds is younger than the lock. A group without anything to do is
-- not locked: that is what the block is for, which takes the lock back.
CREATE OR REPLACE FUNCTION {schema}.lock_group(of_queue integer, of_group text, now_us bigint) RETURNS boolean
LANGUAGE plpgsql
AS $function$
BEGIN
    IF NOT pg_try_advisory_xact_lock({schema}.group_lock(of_queue, of_group)) THEN
        RETURN FALSE;
    END IF;
    IF NOT EXISTS (SELECT FROM {schema}.leases WHERE queue_id = of_queue AND group_key = of_group)
        AND {schema}.has_work(of_queue, of_group, now_us) THEN
        -- Whoever wanted the group to be looked at committed before; the turn reads after this.
        DELETE FROM {schema}.requests WHERE queue_id = of_queue AND group_key = of_group AND action = 'look';
        RETURN TRUE;
    END IF;
    RAISE EXCEPTION 'nothing to do' USING ERRCODE = 'SQ001';
EXCEPTION WHEN SQLSTATE 'SQ001' THEN
    RETURN FALSE;
END
$function$;

-- Lock a group that has something to hand out.
CREATE OR REPLACE FUNCTION {schema}.lock_ready(of_queue integer, of_group text) RETURNS boolean
LANGUAGE plpgsql
AS $function$
BEGIN
    IF NOT pg_try_advisory_xact_lock({schema}.group_lock(of_queue, of_group)) THEN
        RETURN FALSE;
    END IF;
    -- A request may have come before the lock, and is obeyed by a turn that judges.
    PERFORM FROM {schema}.groups
    WHERE queue_id = of_queue AND group_key = of_group AND ready_rank IS NOT NULL
        AND NOT EXISTS (SELECT FROM {schema}.requests WHERE queue_id = of_queue AND group_key = of_group)
        AND NOT EXISTS (SELECT FROM {schema}.leases WHERE queue_id = of_queue AND group_key = of_group);
    IF FOUND THEN
        RETURN TRUE;
    END IF;
    RAISE EXCEPTION 'nothing to hand out' USING ERRCODE = 'SQ001';
EXCEPTION WHEN SQLSTATE 'SQ001' THEN
    RETURN FALSE;
END
$function$;

-- Lock a group for an operator, who waits for it at most so long. One that is in a lease is somebody's.
CREATE OR REPLACE FUNCTION {schema}.lock_patiently(of_queue integer, of_group text, patience_ms integer) RETURNS boolean
LANGUAGE plpgsql
AS $function$
DECLARE
    before text := current_setting('lock_timeout');
BEGIN
    PERFORM set_config('lock_timeout', patience_ms::text, TRUE);
    PERFORM pg_advisory_xact_lock({schema}.group_lock(of_queue, of_group));
    PERFORM set_config('lock_timeout', before, TRUE);
    RETURN NOT {schema}.is_leased(of_queue, of_group);
EXCEPTION WHEN lock_not_available THEN
    RETURN FALSE;
END
$function$;

-- Lock many groups of a queue that have something to do, at most `how_many`: those of lowest rank first, as far as a look
-- at so many entries tells. What somebody else has is left out. Nobody but operators competes with a pipeline for its
-- groups, so none is looked at again under its lock: a turn that finds nothing does nothing.
CREATE OR REPLACE FUNCTION {schema}.lock_many(of_queue integer, how_many integer, now_us bigint) RETURNS text[]
LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_bitmapscan = off
SET plan_cache_mode = force_generic_plan
AS $function$
DECLARE
    candidates text[];
    taken text[];
BEGIN
    SELECT array_agg(group_key) INTO candidates FROM (
        SELECT group_key FROM (
            (
                SELECT group_key, ready_rank AS rank FROM {schema}.groups
                WHERE queue_id = of_queue AND ready_rank IS NOT NULL ORDER BY ready_rank LIMIT how_many
            ) UNION ALL (
                SELECT group_key, rank FROM {schema}.entries
                WHERE queue_id = of_queue AND status = 'arrived' ORDER BY rank LIMIT 20 * how_many
            ) UNION ALL (
                SELECT group_key, due_at FROM {schema}.groups
                WHERE queue_id = of_queue AND due_at <= now_us ORDER BY due_at LIMIT how_many
            ) UNION ALL (
                SELECT group_key, rank FROM {schema}.requests WHERE queue_id = of_queue LIMIT how_many
            )
        ) AS one GROUP BY group_key ORDER BY min(rank) LIMIT how_many
    ) AS first;
    SELECT array_agg(group_key) INTO taken FROM unnest(candidates) AS wanted (group_key)
    WHERE pg_try_advisory_xact_lock({schema}.group_lock(of_queue, group_key));
    -- What workers have in leases is theirs.
    taken := ARRAY(
        SELECT group_key FROM unnest(taken) AS mine (group_key) WHERE NOT {schema}.is_leased(of_queue, group_key)
    );
    -- Whoever wanted a group to be looked at committed before; the turn reads after this.
    DELETE FROM {schema}.requests WHERE queue_id = of_queue AND group_key = ANY (taken) AND action = 'look';
    RETURN coalesce(taken, ARRAY[]::text[]);
END
$function$;

-- The groups as they stand, read without locks. `state`: what a group shows; the rules are those of kernel/states.py.
-- `arrived`: not judged yet, so not in the state either; `in_hand`: of a pipeline. `hole_since`, `due_at`: NULL where nothing is open, or due.
-- `next`, `last_released` and `hole_through` are sequences as numbers: microseconds where a queue goes by time.
CREATE OR REPLACE VIEW {schema}.group_states AS
WITH locked AS MATERIALIZED (
    SELECT (classid::bigint << 32) | objid::bigint AS lock FROM pg_locks
    WHERE locktype = 'advisory' AND objsubid = 1 AND granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    UNION ALL
    SELECT {schema}.group_lock(queue_id, group_key) FROM {schema}.leases WHERE group_key IS NOT NULL
), known AS (
    SELECT
        queue_id, group_key, incarnation, flags, next, last, ordinal, since, reports, due_at
    FROM {schema}.groups
    UNION ALL
    SELECT DISTINCT
        queue_id, group_key, NULL::integer, 0::bigint, NULL::bigint, (-9223372036854775808)::bigint, 0::bigint,
        (-4611686018427387904)::bigint, 0::bigint, NULL::bigint
    FROM {schema}.entries AS entry
    WHERE status = 'arrived' AND NOT EXISTS (
        SELECT FROM {schema}.groups AS judged
        WHERE judged.queue_id = entry.queue_id AND judged.group_key = entry.group_key
    )
)
SELECT
    place.queue,
    known.group_key,
    {schema}.shown_state(
        known.flags, fact.suspended, fact.locked, fact.hole,
        policy.hole_timeout IS NOT NULL AND known.reports > policy.hole_retries
    ) AS state,
    fact.locked,
    CASE WHEN policy.name = 'standard' AND (policy.start <> 'first' OR known.flags & 1 <> 0) THEN known.next END AS next,
    entry.arrived,
    entry.held,
    entry.queued,
    CASE WHEN fact.hole THEN to_timestamp(known.since / 1e6) END AS hole_since,
    CASE WHEN fact.hole THEN entry.lowest - policy.increment END AS hole_through,
    nullif(known.last, -9223372036854775808) AS last_released,
    known.ordinal,
    coalesce(known.incarnation, place.incarnation) AS incarnation,
    to_timestamp(known.due_at / 1e6) AS due_at,
    CASE WHEN fact.suspended AND said.action = 'suspend' THEN said.actor END AS suspended_by,
    CASE WHEN fact.suspended AND said.action = 'suspend' THEN said.reason END AS suspended_because,
    entry.in_hand
FROM known
JOIN {schema}.queues AS place USING (queue_id)
CROSS JOIN LATERAL jsonb_to_record(
    -- A type's own, where the key begins with the type.
    coalesce(place.definition -> 'policies' -> split_part(known.group_key, '/', 1), place.definition -> 'policy')
) AS policy (
    name text, start text, increment bigint, hole_timeout float8, hole_retries integer
)
CROSS JOIN LATERAL (
    SELECT
        coalesce((
            SELECT action = 'suspend' FROM {schema}.requests AS request
            WHERE request.queue_id = known.queue_id AND request.group_key = known.group_key
                AND request.action <> 'look'
            ORDER BY request_id DESC LIMIT 1
        ), known.flags & 8 <> 0) AS suspended,
        {schema}.group_lock(known.queue_id, known.group_key) IN (SELECT lock FROM locked) AS locked,
        policy.name = 'standard' AND known.since <> -4611686018427387904 AS hole
) AS fact
CROSS JOIN LATERAL (
    SELECT
        count(*) FILTER (WHERE status = 'arrived') AS arrived,
        count(*) FILTER (WHERE status = 'held') AS held,
        count(*) FILTER (WHERE status = 'queued') AS queued,
        count(*) FILTER (WHERE status = 'in_hand') AS in_hand,
        min(sequence) FILTER (WHERE status = 'held' AND NOT late) AS lowest
    FROM {schema}.entries AS one
    WHERE one.queue_id = known.queue_id AND one.group_key = known.group_key
) AS entry
LEFT JOIN LATERAL (
    SELECT action, actor, reason FROM {schema}.operator_log AS log
    WHERE log.queue = place.queue AND log.group_key = known.group_key
        AND action IN ('suspend', 'resume', 'skip_message')
    ORDER BY operation_id DESC LIMIT 1
) AS said ON TRUE
WHERE policy.name <> 'unordered';

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
            SELECT known.incarnation FROM {schema}.groups AS known
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
    UPDATE {schema}.groups AS known SET
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

-- Nobody but the owner, unless he lets them in.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA {schema} FROM PUBLIC;
