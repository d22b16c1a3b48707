-- The present groups, read without locks. `state`: the state that a group shows, by the rules of
-- kernel/groups/states.py; a group whose first message is postponed waits. `arrived`: not judged yet, so not in the
-- state either; `in_hand`: of a pipeline. `hole_since`, `due_at`: NULL if nothing is open, or due. `next`,
-- `last_released` and `hole_through` are sequences as numbers: microseconds if a queue goes by time, NULL if it goes by position. `suspended_by`:
-- NULL if a rule of order has suspended it, which is in `suspended_because`.
CREATE OR REPLACE VIEW {schema}.groups AS
WITH locked AS MATERIALIZED (
    SELECT (classid::bigint << 32) | objid::bigint AS lock FROM pg_locks
    WHERE locktype = 'advisory' AND objsubid = 1 AND granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    UNION ALL
    SELECT {schema}.group_lock(queue_id, group_key) FROM {schema}.leases WHERE group_key IS NOT NULL
), known AS (
    SELECT
        queue_id, group_key, incarnation, flags, first, next, last, ordinal, since, reports, due_at, remembered
    FROM {schema}.known_groups
    UNION ALL
    SELECT DISTINCT
        queue_id, group_key, NULL::integer, 0::bigint, NULL::bigint, NULL::bigint, ({NOTHING})::bigint, 0::bigint,
        ({NEVER})::bigint, 0::bigint, NULL::bigint, ''::bytea
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
        CASE
            WHEN postponed.waits AND known.flags & {flag.COMPLETE} <> 0
                THEN known.flags & ~{flag.CLOSED|COMPLETE}::bigint
            ELSE known.flags
        END,
        fact.suspended, fact.locked, fact.hole OR fact.gathers OR coalesce(postponed.waits, FALSE),
        fact.hole AND policy.hole_timeout IS NOT NULL AND known.reports > policy.hole_retries
    ) AS state,
    fact.locked,
    CASE
        WHEN policy.name = 'standard' AND (
            policy.start NOT IN ('first', 'lowest', 'told') OR known.flags & {flag.BEGUN} <> 0
        ) THEN known.next
    END AS next,
    entry.arrived,
    entry.held,
    entry.queued,
    CASE WHEN fact.hole THEN to_timestamp(known.since / 1e6) END AS hole_since,
    CASE WHEN fact.hole THEN entry.lowest - policy.increment END AS hole_through,
    CASE WHEN policy.name <> 'best_effort' OR known.remembered = '' THEN nullif(known.last, {NOTHING}) END AS last_released,
    known.ordinal,
    coalesce(known.incarnation, place.incarnation) AS incarnation,
    to_timestamp(known.due_at / 1e6) AS due_at,
    CASE WHEN said.action = 'suspend' THEN said.actor END AS suspended_by,
    CASE
        WHEN said.action = 'suspend' THEN said.reason
        WHEN fact.suspended THEN {schema}.late_because(
            CASE WHEN came.sequence IS NULL AND came.arrival IS NOT NULL THEN 'position' ELSE policy.name END,
            known.first, came.sequence
        )
    END AS suspended_because,
    entry.in_hand
FROM known
JOIN {schema}.queues AS place USING (queue_id)
CROSS JOIN LATERAL {schema}.policy_said(
    -- A type's own policy, if the key begins with the type.
    coalesce(place.definition -> 'policies' -> split_part(known.group_key, '/', 1), place.definition -> 'policy')
) AS policy
CROSS JOIN LATERAL (
    SELECT
        coalesce((
            SELECT action = 'suspend' FROM {schema}.requests AS request
            WHERE request.queue_id = known.queue_id AND request.group_key = known.group_key
                AND request.action <> 'look'
            ORDER BY request_id DESC LIMIT 1
        ), known.flags & {flag.SUSPENDED} <> 0) AS suspended,
        {schema}.group_lock(known.queue_id, known.group_key) IN (SELECT lock FROM locked) AS locked,
        policy.name = 'standard' AND known.since <> {NEVER}
            AND NOT (policy.start IN ('lowest', 'told') AND known.flags & {flag.BEGUN} = 0) AS hole,
        policy.name = 'standard' AND known.since <> {NEVER}
            AND policy.start IN ('lowest', 'told') AND known.flags & {flag.BEGUN} = 0 AS gathers
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
        min(sequence) FILTER (WHERE status = 'held' AND NOT late AND NOT waits) AS lowest
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
    SELECT sequence, arrival FROM {schema}.entries AS late
    WHERE fact.suspended AND said.action IS DISTINCT FROM 'suspend' AND late.queue_id = known.queue_id
        AND late.group_key = known.group_key AND late.status = 'held' AND late.late
    ORDER BY arrival LIMIT 1
) AS came ON TRUE
WHERE policy.name <> 'unordered';
