-- Purpose: present groups, by queue and key: of the next `most` those that fit, at most `limit`; of one queue, keys,
-- pattern of keys, state, whether they stand still, age, time, property of a message that it has, or text. Each row has the last group that was
-- read, and how many were; where none fits, there is one row without a group.
-- Index: known_groups_pkey, groups_standing, groups_suspected, entries_postponed or groups_faulted, entries_of_group,
-- each for the groups that are read; of groups of gates entries_on_way; operator_log_of_group for each suspended group,
-- faults_of_group and entries_pkey for each that is faulted or has a timer. All entries of a group are counted at once,
-- so that none is counted twice. `LIMIT 1`: looked up for each group, and never all of them read to be joined.
WITH place AS MATERIALIZED (
    SELECT
        known.queue_id, known.queue, known.incarnation, kind.type, kind.types, policy.*,
        coalesce((kind.one ->> 'restart_after')::bigint, 8) AS restart_after,
        CASE
            WHEN policy.start = 'lowest' THEN 'settling'
            WHEN policy.start = 'told' THEN CASE
                WHEN coalesce(
                    known.definition #> '{sequence,base}', known.definition #> '{sequence,base_only}'
                ) IS NULL THEN 'reset'
                ELSE 'base'
            END
        END AS gathers,
        EXISTS (SELECT FROM {schema}.ways AS way WHERE way.gate_id = known.queue_id AND way.is_origin) AS is_gate,
        {schema}.region_of_queue(known.queue_id) AS regions
    FROM {schema}.queues AS known
    CROSS JOIN LATERAL (
        -- Of a queue by types a row for each that has a policy of its own, and one, without a type, for the others.
        SELECT NULL::text COLLATE "C" AS type, known.definition -> 'policies' AS types,
            known.definition -> 'policy' AS one
        UNION ALL
        SELECT own.key, NULL, own.value FROM jsonb_each(
            CASE WHEN jsonb_typeof(known.definition -> 'policies') = 'object' THEN known.definition -> 'policies' END
        ) AS own
    ) AS kind
    CROSS JOIN LATERAL {schema}.policy_said(kind.one) AS policy
    WHERE policy.name <> 'unordered' AND (%(queue)s::text IS NULL OR known.queue = %(queue)s)
), locked AS MATERIALIZED (
    SELECT (held.classid::bigint << 32) | held.objid::bigint AS lock, min(held.pid) AS pid
    FROM pg_locks AS held
    WHERE held.locktype = 'advisory' AND held.objsubid = 1 AND held.granted
        AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    GROUP BY 1
), asked AS MATERIALIZED (
    SELECT DISTINCT ON (queue_id, group_key) queue_id, group_key, action = 'suspend' AS suspends
    FROM {schema}.requests WHERE action <> 'look'
    ORDER BY queue_id, group_key, request_id DESC
), candidate AS MATERIALIZED (
    SELECT * FROM {schema}.groups_after(
        of_queue => %(queue)s, only_keys => %(group_keys)s::text[], among => %(among)s, pattern => %(key)s,
        lowest => %(lowest)s, below => %(below)s, after_queue => %(after_queue)s, after_key => %(after_key)s,
        most => %(most)s::integer
    )
), known AS (
    SELECT
        candidate.queue_id, candidate.group_key, coalesce(judged.flags, 0) AS flags, judged.first, judged.next,
        judged.skipped, nullif(judged.last, {NOTHING}) AS last, coalesce(judged.ordinal, 0) AS ordinal,
        judged.incarnation, nullif(judged.since, {NEVER}) AS since, judged.reports, judged.due_at,
        judged.touched_at, coalesce(judged.suspects, 0) AS suspects, judged.lives IS NOT NULL AS has_lives,
        judged.remembered
    FROM candidate LEFT JOIN LATERAL (
        SELECT * FROM {schema}.known_groups AS one
        WHERE one.queue_id = candidate.queue_id AND one.group_key = candidate.group_key LIMIT 1
    ) AS judged ON TRUE
), shown AS (
    SELECT
        place.queue_id, place.queue, place.is_gate, place.regions, known.group_key, known.suspects, fact.*,
        NOT found.in_turn AS obeyed, place.increment, known.ordinal,
        coalesce(known.incarnation, place.incarnation) AS incarnation,
        known.last, CASE WHEN place.name = 'best_effort' THEN known.remembered END AS positions, known.touched_at, known.skipped, known.flags & {flag.CLOSING} <> 0 AS closing,
        known.flags & {flag.UNOPENED} <> 0 AS unopened, to_timestamp(known.due_at / 1e6) AS due_at,
        CASE
            WHEN place.name = 'standard' AND (
                place.start NOT IN ('first', 'lowest', 'told') OR known.flags & {flag.BEGUN} <> 0
            ) THEN known.next
        END AS next,
        CASE WHEN fact.hole THEN to_timestamp(known.since / 1e6) END AS hole_since,
        fact.state IN ('suspended', 'faulted', 'timed_out') OR fact.state = 'waiting'
            AND (fact.hole OR known.flags & {flag.UNOPENED} <> 0)
            AND {schema}.stands_from(known.since, place.hole_timeout) <= {schema}.now_us() AS stands,
        -- A clock that begins in the future began while that of the database was ahead; or with a delayed message.
        CASE WHEN known.due_at IS NOT NULL AND known.since > {schema}.now_us() AND NOT EXISTS (
            SELECT FROM {schema}.entries AS delayed
            WHERE delayed.queue_id = known.queue_id AND delayed.group_key = known.group_key
                AND delayed.visible_at > clock_timestamp()
        ) THEN ((known.due_at - {schema}.now_us()) / 1e6)::float8 END AS due_in_s,
        lease.worker AS leased_by, lease.expires_at AS leased_until,
        fault.error, fault.error_class, fault.retry_at, later.postponed, later.postponed_until, locked.pid AS locked_by,
        work.application_name AS locked_name,
        host(work.client_addr) AS locked_host,
        CASE WHEN work.state LIKE 'idle in transaction%%' THEN
            extract(epoch FROM clock_timestamp() - work.state_change)::float8
        END AS locked_idle_s, said.actor AS suspended_by,
        CASE
            WHEN said.actor IS NOT NULL THEN said.reason
            WHEN found.suspended AND came.waits THEN format(
                'a suspected restart of its producer, at the message with the sequence %%s', came.sequence
            )
            WHEN found.suspended THEN {schema}.late_because(
                CASE WHEN came.sequence IS NULL AND came.arrival IS NOT NULL THEN 'position' ELSE place.name END,
                known.first, came.sequence
            )
        END AS suspended_because,
        CASE fact.state
            WHEN 'suspended' THEN coalesce(said.at, known.touched_at)
            WHEN 'faulted' THEN coalesce(fault.at, known.touched_at)
            WHEN 'waiting' THEN CASE
                WHEN fact.hole OR fact.gathers IS NOT NULL OR known.flags & {flag.UNOPENED} <> 0 THEN to_timestamp(known.since / 1e6)
                ELSE known.touched_at
            END
            WHEN 'timed_out' THEN to_timestamp(known.since / 1e6)
            WHEN 'locked' THEN coalesce(lease.claimed_at, work.xact_start, known.touched_at)
            ELSE known.touched_at
        END AS since
    FROM known
    JOIN place ON place.queue_id = known.queue_id AND CASE
        WHEN place.type IS NOT NULL THEN place.type = split_part(known.group_key, '/', 1)
        ELSE (place.types ? split_part(known.group_key, '/', 1)) IS NOT TRUE
    END
    LEFT JOIN asked ON asked.queue_id = known.queue_id AND asked.group_key = known.group_key
    LEFT JOIN locked ON locked.lock = {schema}.group_lock(known.queue_id, known.group_key)
    LEFT JOIN pg_stat_activity AS work ON work.pid = locked.pid
    LEFT JOIN {schema}.leases AS lease ON lease.queue_id = known.queue_id AND lease.group_key = known.group_key
    CROSS JOIN LATERAL (
        SELECT
            coalesce(asked.suspends, known.flags & {flag.SUSPENDED} <> 0) AS suspended,
            coalesce(asked.suspends, FALSE) AND known.flags & {flag.SUSPENDED} = 0
                AND (locked.pid IS NOT NULL OR lease.token IS NOT NULL) AS in_turn,
            place.name = 'standard' AND known.since IS NOT NULL AND known.flags & {flag.UNOPENED} = 0
                AND (place.gathers IS NULL OR known.flags & {flag.BEGUN} <> 0) AS hole,
            CASE WHEN known.since IS NOT NULL AND known.flags & {flag.BEGUN} = 0 THEN place.gathers END AS gathers,
            place.name = 'standard' AND place.restart_after > 0 AND known.suspects >= place.restart_after AS anew
    ) AS found
    LEFT JOIN LATERAL (
        SELECT head.postponed, head.postponed_until, head.postponed_until IS NOT NULL AS waits FROM (
            SELECT one.postponed,
                CASE WHEN one.postponed_until = one.visible_at THEN one.visible_at END AS postponed_until
            FROM {schema}.entries AS one
            WHERE known.due_at IS NOT NULL AND one.queue_id = known.queue_id AND one.group_key = known.group_key
                AND one.status = 'queued'
            ORDER BY one.ordinal LIMIT 1
        ) AS head
        WHERE head.postponed_until > clock_timestamp()
    ) AS later ON TRUE
    CROSS JOIN LATERAL (
        -- A set that is complete closes its group; if it is postponed, its messages are still handed out.
        SELECT found.hole, found.gathers, found.anew AS restart_suspected, {schema}.shown_state(
            CASE
                WHEN later.waits AND known.flags & {flag.COMPLETE} <> 0
                    THEN known.flags & ~{flag.CLOSED|COMPLETE}::bigint
                ELSE known.flags
            END,
            found.suspended, locked.pid IS NOT NULL OR lease.token IS NOT NULL,
            found.hole OR found.gathers IS NOT NULL OR coalesce(later.waits, FALSE),
            found.hole AND place.hole_timeout IS NOT NULL AND known.reports > place.hole_retries
        ) AS state
    ) AS fact
    LEFT JOIN LATERAL (
        SELECT log.at, log.actor, log.reason FROM (
            SELECT * FROM {schema}.operator_log AS one
            WHERE found.suspended AND one.queue = place.queue AND one.group_key = known.group_key
                AND one.action IN ('suspend', 'resume', 'skip_message', 'forget', 'restart')
            ORDER BY one.operation_id DESC LIMIT 1
        ) AS log
        WHERE log.action = 'suspend'
    ) AS said ON TRUE
    LEFT JOIN LATERAL (
        SELECT first.sequence, first.waits, first.arrival FROM (
            (
                SELECT late.sequence, late.waits, late.arrival FROM {schema}.entries AS late
                WHERE found.suspended AND said.actor IS NULL AND late.queue_id = known.queue_id
                    AND late.group_key = known.group_key AND late.status = 'held' AND late.late
                ORDER BY late.arrival LIMIT 1
            ) UNION ALL (
                SELECT old.sequence, FALSE, old.arrival FROM {schema}.entries AS old
                WHERE known.has_lives AND found.suspended AND said.actor IS NULL AND old.queue_id = known.queue_id
                    AND old.group_key = known.group_key AND old.status = 'held' AND old.meaning[1] & {number.OF_ENDED} <> 0
                ORDER BY old.arrival LIMIT 1
            )
        ) AS first
        ORDER BY first.arrival LIMIT 1
    ) AS came ON TRUE
    LEFT JOIN LATERAL (
        SELECT last.at, last.error, last.error_class, again.visible_at AS retry_at FROM (
            SELECT one.at, one.error_class || ': ' || one.error AS error, one.error_class, one.entry_id
            FROM {schema}.faults AS one
            WHERE (known.flags & {flag.FAULTED} <> 0 OR known.due_at IS NOT NULL)
                AND one.queue_id = known.queue_id AND one.group_key = known.group_key
            ORDER BY one.fault_id DESC LIMIT 1
        ) AS last
        LEFT JOIN {schema}.entries AS again ON known.flags & {flag.FAULTED} = 0 AND again.entry_id = last.entry_id
            AND again.status = 'queued' AND again.attempt > 0 AND again.visible_at > clock_timestamp()
            AND (again.postponed_until = again.visible_at) IS NOT TRUE
        WHERE known.flags & {flag.FAULTED} <> 0 OR again.entry_id IS NOT NULL
    ) AS fault ON TRUE
), page AS MATERIALIZED (
    SELECT * FROM shown
    WHERE (
            %(state)s::text[] IS NULL OR state = ANY (%(state)s::text[])
            OR %(suspected)s::boolean IS TRUE AND restart_suspected
        )
        AND (%(suspected)s::boolean IS NOT FALSE OR NOT restart_suspected)
        AND (NOT %(standing)s::boolean OR stands OR restart_suspected)
        AND (%(older_than)s::interval IS NULL OR since < clock_timestamp() - %(older_than)s::interval)
        AND {in_time(since)}
        AND (%(names)s::text[] IS NULL OR EXISTS (
            SELECT FROM {schema}.entries AS one CROSS JOIN LATERAL (
                SELECT other.arrival_id, other.position, other.context FROM {schema}.spool AS other
                WHERE other.arrival_id = one.arrival_id AND other.position = one.position
            ) AS stored
            WHERE one.queue_id = shown.queue_id AND one.group_key = shown.group_key
                AND {has_wanted_properties(stored)}
        ))
        AND (%(error)s::text IS NULL OR suspended_because ILIKE %(error)s OR error ILIKE %(error)s)
        -- A suspended group isn't stopped by the error that it had before.
        AND (%(error_class)s::text IS NULL OR error_class = %(error_class)s::text AND state <> 'suspended')
    ORDER BY queue, group_key
    LIMIT %(limit)s
), last AS (
    SELECT queue AS last_queue, group_key AS last_group, count(*) OVER () AS read FROM candidate
    ORDER BY queue DESC, group_key DESC LIMIT 1
)
SELECT
    last.*, page.queue, page.group_key AS "group", page.state, page.since,
    page.locked_by IS NOT NULL OR page.leased_by IS NOT NULL AS locked,
    page.locked_by,
    page.next, entry.arrived, entry.held, entry.queued, entry.in_hand, page.hole_since,
    CASE WHEN page.hole THEN least(entry.lowest, marker.lowest) - page.increment END AS hole_through,
    page.last AS last_released, page.positions,
    page.ordinal, page.incarnation, page.due_at, page.touched_at, page.suspended_by, page.suspended_because,
    page.error, page.leased_by, page.leased_until, entry.late, page.retry_at, page.obeyed,
    page.locked_name, page.locked_host, page.locked_idle_s, page.due_in_s, page.suspects, page.restart_suspected,
    coalesce(page.closing, FALSE) AS closing, coalesce(page.unopened, FALSE) AS unopened,
    page.postponed, page.postponed_until, page.stands, gate.places, gate.open_places, gate.open_number,
    to_timestamp(gate.open_us / 1e6) AS open_since, page.regions, page.gathers
FROM last LEFT JOIN page ON TRUE
CROSS JOIN LATERAL (
    SELECT
        count(*) FILTER (WHERE status = 'arrived') AS arrived,
        count(*) FILTER (WHERE status IN ('held', 'placed')) AS held,
        count(*) FILTER (
            WHERE status = 'held' AND (late AND NOT waits OR meaning[1] & {number.OF_ENDED} <> 0)
        ) AS late,
        count(*) FILTER (WHERE status = 'queued') AS queued,
        count(*) FILTER (WHERE status = 'in_hand') AS in_hand,
        min(sequence) FILTER (WHERE status = 'held' AND NOT late AND NOT waits) AS lowest
    FROM {schema}.entries AS one
    WHERE one.queue_id = page.queue_id AND one.group_key = page.group_key
) AS entry
-- The numbers of messages that were taken out are skipped when it is their turn: they end a hole, too.
LEFT JOIN LATERAL (
    SELECT min(ahead) AS lowest FROM unnest(page.skipped) AS ahead WHERE page.hole AND ahead >= page.next
) AS marker ON TRUE
LEFT JOIN LATERAL (
    SELECT * FROM {schema}.open_places(page.queue_id, page.group_key) AS one WHERE page.is_gate LIMIT 1
) AS gate ON TRUE
ORDER BY page.queue, page.group_key
