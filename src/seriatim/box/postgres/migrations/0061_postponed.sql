-- A receiver may say "not now" of a message that it has in hand: it is handed out again later, without an attempt.

-- `postponed`: how often it was postponed; NULL: never. `postponed_until`: until when it was postponed last; as long as that is also when
-- it may be seen, nobody has changed that since. Nothing is written here when a message comes in.
ALTER TABLE {schema}.entries ADD COLUMN postponed integer, ADD COLUMN postponed_until timestamptz;
CREATE INDEX entries_postponed ON {schema}.entries (queue_id, group_key) WHERE postponed_until IS NOT NULL;

-- With the columns that entries have now.
CREATE OR REPLACE VIEW {schema}.seen_entries WITH (security_barrier) AS
SELECT * FROM {schema}.entries WHERE queue_id = ANY ((SELECT {schema}.sees('see'))::integer[]);

-- Messages that the caller has in hand, and has put back in this transaction, are handed out again after a delay; their group waits with
-- them. As of a retry in `note_fault`, without a fault. `of_group`: NULL in a queue without groups. Returns until when; NULL: somebody
-- else has them in hand, or they aren't there.
CREATE FUNCTION {schema}.postpone(of_queue integer, of_group text, of_entries bigint[], delay interval) RETURNS timestamptz
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    again timestamptz;
    free bigint[];
BEGIN
    PERFORM {schema}.permit_entries(of_queue, of_entries);
    IF delay IS NULL OR delay < '0 s' OR delay > '10000 days' THEN
        RAISE EXCEPTION 'a message cannot be postponed by %', coalesce(delay::text, 'no time') USING
            ERRCODE = 'invalid_parameter_value', HINT = 'from 0 s to 10000 days';
    END IF;
    again := clock_timestamp() + delay;
    IF of_group IS NULL THEN
        free := ARRAY(
            SELECT entry.entry_id FROM {schema}.entries AS entry JOIN {schema}.queues AS place USING (queue_id)
            WHERE entry.entry_id = ANY (of_entries) AND entry.queue_id = of_queue AND entry.status = 'arrived'
                AND entry.visible_at IS DISTINCT FROM 'infinity' -- which is in a lease
                AND place.definition #>> '{{policy,name}}' = 'unordered'
            FOR UPDATE OF entry SKIP LOCKED
        );
    ELSIF pg_try_advisory_xact_lock({schema}.group_lock(of_queue, of_group)) AND NOT EXISTS (
        SELECT FROM {schema}.leases AS lease WHERE lease.queue_id = of_queue AND lease.group_key = of_group
    ) THEN
        free := ARRAY(
            SELECT entry.entry_id FROM {schema}.entries AS entry
            WHERE entry.entry_id = ANY (of_entries) AND entry.queue_id = of_queue AND entry.group_key = of_group
                AND entry.status = 'queued'
        );
    END IF;
    IF coalesce(cardinality(free), 0) = 0 THEN
        RETURN NULL;
    END IF;
    UPDATE {schema}.entries AS entry
    SET visible_at = again, postponed_until = again, postponed = coalesce(entry.postponed, 0) + 1
    WHERE entry.entry_id = ANY (free);
    UPDATE {schema}.known_groups AS known
    SET ready_rank = NULL, due_at = least(known.due_at, (extract(epoch FROM again) * 1000000)::bigint)
    WHERE known.queue_id = of_queue AND known.group_key = of_group;
    RETURN again;
END
$function$;

-- See 0053. A message that was postponed can be handed out at once, too, and in a queue without a gate.
CREATE OR REPLACE FUNCTION {schema}.retry_messages(of_queue integer, of_entries bigint[]) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    free bigint[];
BEGIN
    PERFORM {schema}.permit('operate', ARRAY[of_queue]);
    free := ARRAY(
        SELECT entry.entry_id FROM {schema}.entries AS entry
        WHERE entry.entry_id = ANY (of_entries) AND entry.queue_id = of_queue AND (
            entry.status = 'faulted' OR entry.status = 'arrived'
                AND (entry.attempt > 0 OR entry.postponed_until = entry.visible_at)
                AND entry.visible_at > clock_timestamp() AND entry.visible_at < 'infinity'
        )
        FOR UPDATE SKIP LOCKED
    );
    UPDATE {schema}.entries AS entry SET status = 'arrived', visible_at = NULL WHERE entry.entry_id = ANY (free);
    RETURN free;
END
$function$;

-- See 0025. A group whose first message is postponed waits, also if it is a complete set, until a time that is known.
CREATE OR REPLACE VIEW {schema}.stopped_groups AS
WITH asked AS MATERIALIZED (
    SELECT DISTINCT ON (queue_id, group_key) queue_id, group_key, action = 'suspend' AS suspends
    FROM {schema}.requests WHERE action <> 'look'
    ORDER BY queue_id, group_key, request_id DESC
), standing AS MATERIALIZED (
    SELECT queue_id, group_key, flags, since, reports, touched_at, due_at FROM {schema}.known_groups
    WHERE flags & 24 <> 0 OR since <> -4611686018427387904
    UNION
    SELECT known.queue_id, known.group_key, known.flags, known.since, known.reports, known.touched_at, known.due_at
    FROM asked JOIN {schema}.known_groups AS known
        ON known.queue_id = ANY (ARRAY[asked.queue_id]) AND known.group_key = ANY (ARRAY[asked.group_key])
    WHERE asked.suspends
    UNION
    SELECT known.queue_id, known.group_key, known.flags, known.since, known.reports, known.touched_at, known.due_at
    FROM {schema}.entries AS later JOIN {schema}.known_groups AS known
        ON known.queue_id = ANY (ARRAY[later.queue_id]) AND known.group_key = ANY (ARRAY[later.group_key])
    WHERE later.postponed_until IS NOT NULL AND later.status = 'queued'
), locked AS MATERIALIZED (
    SELECT DISTINCT (held.classid::bigint << 32) | held.objid::bigint AS lock
    FROM pg_locks AS held
    WHERE held.locktype = 'advisory' AND held.objsubid = 1 AND held.granted
        AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database())
)
SELECT
    place.queue_id,
    place.queue,
    standing.group_key,
    fact.state,
    CASE
        WHEN fact.state IN ('timed_out', 'waiting') AND hole.is_open THEN to_timestamp(standing.since / 1e6)
        ELSE standing.touched_at
    END AS since,
    rule.hole_timeout IS NOT NULL OR fact.state = 'waiting' AND NOT hole.is_open AND standing.flags & 512 = 0 AS is_timed
FROM standing
JOIN {schema}.queues AS place USING (queue_id)
LEFT JOIN asked USING (queue_id, group_key)
CROSS JOIN LATERAL {schema}.policy_said(
    CASE
        WHEN jsonb_typeof(place.definition -> 'policies') = 'object'
            THEN coalesce(
                place.definition -> 'policies' -> split_part(standing.group_key, '/', 1), place.definition -> 'policy'
            )
        ELSE place.definition -> 'policy'
    END
) AS rule
CROSS JOIN LATERAL (
    -- Of a group that isn't opened, since when the first message waits.
    SELECT (rule.name = 'standard' OR standing.flags & 512 <> 0) AND standing.since <> -4611686018427387904 AS is_open
) AS hole
LEFT JOIN LATERAL (
    SELECT one.postponed_until = one.visible_at AND one.visible_at > clock_timestamp() AS waits
    FROM {schema}.entries AS one
    WHERE standing.due_at IS NOT NULL AND one.queue_id = standing.queue_id AND one.group_key = standing.group_key
        AND one.status = 'queued'
    ORDER BY one.ordinal LIMIT 1
) AS postponed ON TRUE
CROSS JOIN LATERAL (
    SELECT {schema}.shown_state(
        CASE WHEN postponed.waits AND standing.flags & 4 <> 0 THEN standing.flags & ~6::bigint ELSE standing.flags END,
        coalesce(asked.suspends, standing.flags & 8 <> 0),
        EXISTS (SELECT FROM locked WHERE locked.lock = {schema}.group_lock(standing.queue_id, standing.group_key)) OR EXISTS (
            SELECT FROM {schema}.leases AS lease
            WHERE lease.queue_id = standing.queue_id AND lease.group_key = standing.group_key
        ),
        rule.name = 'standard' AND standing.since <> -4611686018427387904 OR coalesce(postponed.waits, FALSE),
        rule.name = 'standard' AND standing.since <> -4611686018427387904
            AND rule.hole_timeout IS NOT NULL AND standing.reports > rule.hole_retries
    ) AS state
) AS fact
WHERE fact.state IN ('suspended', 'faulted', 'timed_out', 'waiting');

-- See 0020. A group whose first message is postponed waits.
CREATE OR REPLACE VIEW {schema}.groups AS
WITH locked AS MATERIALIZED (
    SELECT (classid::bigint << 32) | objid::bigint AS lock FROM pg_locks
    WHERE locktype = 'advisory' AND objsubid = 1 AND granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    UNION ALL
    SELECT {schema}.group_lock(queue_id, group_key) FROM {schema}.leases WHERE group_key IS NOT NULL
), known AS (
    SELECT
        queue_id, group_key, incarnation, flags, first, next, last, ordinal, since, reports, due_at
    FROM {schema}.known_groups
    UNION ALL
    SELECT DISTINCT
        queue_id, group_key, NULL::integer, 0::bigint, NULL::bigint, NULL::bigint, (-9223372036854775808)::bigint, 0::bigint,
        (-4611686018427387904)::bigint, 0::bigint, NULL::bigint
    FROM {schema}.entries AS entry
    WHERE status = 'arrived' AND NOT EXISTS (
        SELECT FROM {schema}.known_groups AS judged
        WHERE judged.queue_id = entry.queue_id AND judged.group_key = entry.group_key
    )
)
SELECT
    place.queue,
    known.group_key,
    {schema}.shown_state(
        CASE WHEN postponed.waits AND known.flags & 4 <> 0 THEN known.flags & ~6::bigint ELSE known.flags END,
        fact.suspended, fact.locked, fact.hole OR coalesce(postponed.waits, FALSE),
        fact.hole AND policy.hole_timeout IS NOT NULL AND known.reports > policy.hole_retries
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
    CASE WHEN said.action = 'suspend' THEN said.actor END AS suspended_by,
    CASE
        WHEN said.action = 'suspend' THEN said.reason
        WHEN fact.suspended THEN {schema}.late_because(policy.name, known.first, came.sequence)
    END AS suspended_because,
    entry.in_hand
FROM known
JOIN {schema}.queues AS place USING (queue_id)
CROSS JOIN LATERAL {schema}.policy_said(
    -- A type's own, where the key begins with the type.
    coalesce(place.definition -> 'policies' -> split_part(known.group_key, '/', 1), place.definition -> 'policy')
) AS policy
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
LEFT JOIN LATERAL (
    SELECT one.postponed_until = one.visible_at AND one.visible_at > clock_timestamp() AS waits
    FROM {schema}.entries AS one
    WHERE known.due_at IS NOT NULL AND one.queue_id = known.queue_id AND one.group_key = known.group_key
        AND one.status = 'queued'
    ORDER BY one.ordinal LIMIT 1
) AS postponed ON TRUE
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
    WHERE fact.suspended AND log.queue = place.queue AND log.group_key = known.group_key
        AND action IN ('suspend', 'resume', 'skip_message', 'forget')
    ORDER BY operation_id DESC LIMIT 1
) AS said ON TRUE
LEFT JOIN LATERAL (
    SELECT sequence FROM {schema}.entries AS late
    WHERE fact.suspended AND said.action IS DISTINCT FROM 'suspend' AND late.queue_id = known.queue_id
        AND late.group_key = known.group_key AND late.status = 'held' AND late.late
    ORDER BY arrival LIMIT 1
) AS came ON TRUE
WHERE policy.name <> 'unordered';

-- See 0024, 0053 and 0056. `postponed`: it, or the message before it, was postponed by its receiver.
CREATE OR REPLACE VIEW {schema}.not_done AS
WITH locked AS MATERIALIZED (
    SELECT DISTINCT (held.classid::bigint << 32) | held.objid::bigint AS lock
    FROM pg_locks AS held
    WHERE held.locktype = 'advisory' AND held.objsubid = 1 AND held.granted
        AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database())
), running AS MATERIALIZED (
    SELECT DISTINCT held.transactionid::text AS xid FROM pg_locks AS held
    WHERE held.locktype = 'transactionid' AND held.granted AND held.pid <> pg_backend_pid()
), leased AS MATERIALIZED (
    SELECT DISTINCT unnest(entry_ids) AS entry_id FROM {schema}.leases
)
SELECT
    entry.entry_id, entry.queue_id, place.queue, nullif(entry.group_key, '') AS group_key, entry.arrival_id, entry.position,
    CASE entry.status WHEN 'placed' THEN 'held' ELSE entry.status::text END AS status, entry.sequence, entry.ordinal,
    entry.attempt,
    CASE
        WHEN fact.in_hand THEN 'in_hand'
        WHEN NOT place.enabled THEN 'off'
        WHEN place.owner IS NOT NULL THEN 'pipeline'
        WHEN coalesce(asked.suspends, known.flags & 8 <> 0) THEN 'suspended'
        WHEN known.flags & 16 <> 0 THEN 'faulted'
        WHEN entry.status = 'faulted' THEN 'failed'
        WHEN entry.status = 'placed' THEN 'place_open'
        WHEN fact.until IS NOT NULL AND fact.postponed THEN 'postponed'
        WHEN fact.until IS NOT NULL AND fact.attempt > 0 THEN 'retry'
        WHEN fact.until IS NOT NULL THEN 'later'
        WHEN entry.status = 'held' AND entry.late THEN 'late'
        WHEN entry.status = 'held' THEN 'held'
        WHEN EXISTS (
            SELECT FROM {schema}.known_subscriptions AS one WHERE one.subscription_id = ANY (entry.subscription_ids)
        ) AND NOT EXISTS (
            SELECT FROM {schema}.known_subscriptions AS one
            WHERE one.subscription_id = ANY (entry.subscription_ids) AND one.state = 'started'
        ) THEN 'stopped'
        ELSE 'ready'
    END AS why,
    CASE WHEN NOT fact.in_hand THEN fact.until END AS until
FROM {schema}.entries AS entry
JOIN {schema}.queues AS place USING (queue_id)
CROSS JOIN LATERAL (SELECT place.definition #>> '{{policy,name}}' = 'unordered' AS unordered) AS kind
LEFT JOIN {schema}.known_groups AS known ON known.queue_id = entry.queue_id AND known.group_key = entry.group_key
LEFT JOIN locked ON NOT kind.unordered AND locked.lock = {schema}.group_lock(entry.queue_id, entry.group_key)
LEFT JOIN running ON kind.unordered AND running.xid = entry.xmax::text
LEFT JOIN leased ON leased.entry_id = entry.entry_id
LEFT JOIN LATERAL (
    SELECT one.action = 'suspend' AS suspends FROM {schema}.requests AS one
    WHERE one.queue_id = entry.queue_id AND one.group_key = entry.group_key AND one.action <> 'look'
    ORDER BY one.request_id DESC LIMIT 1
) AS asked ON TRUE
LEFT JOIN LATERAL (
    SELECT one.visible_at, one.postponed_until, one.attempt FROM {schema}.entries AS one
    WHERE NOT kind.unordered AND one.queue_id = entry.queue_id AND one.group_key = entry.group_key
        AND one.status = 'queued'
    ORDER BY one.ordinal LIMIT 1
) AS first ON TRUE
CROSS JOIN LATERAL (
    SELECT
        entry.batch IS NOT NULL OR leased.entry_id IS NOT NULL OR running.xid IS NOT NULL
            OR (locked.lock IS NOT NULL AND entry.status NOT IN ('held', 'placed')) AS in_hand,
        CASE
            WHEN entry.visible_at > clock_timestamp() THEN nullif(entry.visible_at, 'infinity')
            WHEN first.visible_at > clock_timestamp() THEN first.visible_at
        END AS until,
        CASE WHEN entry.visible_at > clock_timestamp() THEN entry.attempt ELSE first.attempt END AS attempt,
        CASE
            WHEN entry.visible_at > clock_timestamp() THEN entry.postponed_until = entry.visible_at
            ELSE first.postponed_until = first.visible_at
        END AS postponed
) AS fact;

-- Groups whose first message is postponed are among those that stand still.
DO $all$
DECLARE
    known oid := (
        SELECT fn.oid FROM pg_proc AS fn
        WHERE fn.pronamespace = '{schema}'::regnamespace AND fn.proname = 'groups_after'
    );
    before text := pg_get_functiondef(known);
    old text := $q$                ) UNION (
                    -- An operator has asked$q$;
    new text := $q$                ) UNION (
                    -- Its first message may be postponed.
                    SELECT entry.group_key FROM {schema}.entries AS entry
                    WHERE entry.queue_id = place.queue_id AND entry.postponed_until IS NOT NULL AND entry.status = 'queued'
                        AND entry.postponed_until = entry.visible_at AND entry.visible_at > clock_timestamp()
                        AND entry.group_key > later AND entry.group_key >= lowest AND entry.group_key < below
                        AND (pattern IS NULL OR entry.group_key LIKE pattern)
                    ORDER BY entry.group_key LIMIT most - taken
                ) UNION (
                    -- An operator has asked$q$;
BEGIN
    IF (length(before) - length(replace(before, old, ''))) <> length(old) THEN
        RAISE EXCEPTION 'not once in groups_after: %', old;
    END IF;
    EXECUTE replace(before, old, new);
END
$all$;
