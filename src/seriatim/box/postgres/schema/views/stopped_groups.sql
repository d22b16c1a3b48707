-- The groups that hand nothing out until something happens, by the rules of `shown_state`: suspended, faulted,
-- timed_out or waiting (for a missing number, for a message that opens the group, or until a postponed message is
-- due). `since`: of a hole, when it opened; else when the group was last judged. `stands`: whether it stands still: of
-- a hole, see `stands_from`; a postponed message will end its wait. A group that is worked on now is not among them.
CREATE OR REPLACE VIEW {schema}.stopped_groups AS
WITH asked AS MATERIALIZED (
    SELECT DISTINCT ON (queue_id, group_key) queue_id, group_key, action = 'suspend' AS suspends
    FROM {schema}.requests WHERE action <> 'look'
    ORDER BY queue_id, group_key, request_id DESC
), standing AS MATERIALIZED (
    SELECT queue_id, group_key, flags, since, reports, touched_at, due_at FROM {schema}.known_groups
    WHERE flags & {flag.SUSPENDED|FAULTED} <> 0 OR since <> {NEVER}
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
    fact.state <> 'waiting' OR hole.is_open
        AND {schema}.stands_from(standing.since, rule.hole_timeout) <= {schema}.now_us() AS stands
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
    -- For a group that isn't opened, since when the first message waits.
    SELECT (rule.name = 'standard' OR standing.flags & {flag.UNOPENED} <> 0) AND standing.since <> {NEVER} AS is_open
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
        CASE
            WHEN postponed.waits AND standing.flags & {flag.COMPLETE} <> 0
                THEN standing.flags & ~{flag.CLOSED|COMPLETE}::bigint
            ELSE standing.flags
        END,
        coalesce(asked.suspends, standing.flags & {flag.SUSPENDED} <> 0),
        EXISTS (
            SELECT FROM locked WHERE locked.lock = {schema}.group_lock(standing.queue_id, standing.group_key)
        ) OR EXISTS (
            SELECT FROM {schema}.leases AS lease
            WHERE lease.queue_id = standing.queue_id AND lease.group_key = standing.group_key
        ),
        rule.name = 'standard' AND standing.since <> {NEVER} OR coalesce(postponed.waits, FALSE),
        rule.name = 'standard' AND standing.since <> {NEVER}
            AND rule.hole_timeout IS NOT NULL AND standing.reports > rule.hole_retries
    ) AS state
) AS fact
WHERE fact.state IN ('suspended', 'faulted', 'timed_out', 'waiting');
