-- Purpose: queues with messages to hand out, since when (`ready_since`), and the receivers at work on them that the
-- server knows: processes with a heartbeat, receivers that wait for a notification, leases, slots of readers that
-- serve, groups that are locked. `silent`: processes whose heartbeat has ended. `touched_at`: when one of its groups
-- was last handed out or judged. Without groups, a transaction's messages in hand are invisible: there every
-- transaction of a connection of ours counts.
-- Index: groups_ready, entries_arrived, requests_of_group, entries_of_group, workers_of_queue, waiters_of_queue; of a
-- queue with work and no visible receiver all groups are read for `touched_at`.
WITH locked AS MATERIALIZED (
    SELECT DISTINCT (held.classid::bigint << 32) | held.objid::bigint AS lock
    FROM pg_locks AS held
    WHERE held.locktype = 'advisory' AND held.objsubid = 1 AND held.granted
        AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database())
), ready AS MATERIALIZED (
    SELECT place.queue_id, place.queue, place.enabled, place.owner, place.activated, place.definition,
        {schema}.policy_said(place.definition -> 'policy') AS rule, first.since_us
    FROM {schema}.queues AS place
    CROSS JOIN LATERAL (
        SELECT min(one.since_us) AS since_us FROM (
            (
                SELECT entry.rank + (entry.priority - 5) * 10000000 AS since_us FROM {schema}.entries AS entry
                WHERE entry.queue_id = place.queue_id AND entry.status = 'arrived'
                    AND (entry.visible_at IS NULL OR entry.visible_at <= clock_timestamp())
                ORDER BY entry.rank LIMIT 1
            ) UNION ALL (
                SELECT known.ready_rank FROM {schema}.known_groups AS known
                WHERE known.queue_id = place.queue_id AND known.ready_rank IS NOT NULL
                ORDER BY known.ready_rank LIMIT 1
            ) UNION ALL (
                -- At a gate: entries that have ended before it, without a look since.
                SELECT min(asked.rank) FROM {schema}.requests AS asked
                WHERE asked.queue_id = place.queue_id AND asked.action = 'look' AND EXISTS (
                    SELECT FROM {schema}.ways AS way WHERE way.gate_id = place.queue_id AND way.is_origin
                )
            )
        ) AS one
    ) AS first
    WHERE first.since_us IS NOT NULL AND place.definition ->> 'at' IS NULL
)
SELECT
    ready.queue_id,
    ready.queue,
    ready.enabled,
    ready.owner,
    ready.activated,
    jsonb_typeof(ready.definition -> 'activation') = 'object' AS is_activation,
    {schema}.region_of_queue(ready.queue_id) AS regions,
    to_timestamp(ready.since_us / 1e6) AS ready_since,
    extract(epoch FROM clock_timestamp())::float8 - ready.since_us / 1e6::float8 AS ready_s,
    seen.at_work,
    (
        SELECT count(*) FROM {schema}.known_workers AS worker
        WHERE worker.queue_id = ready.queue_id AND worker.seen_at <= clock_timestamp() - {schema}.silence()
    ) AS silent,
    CASE WHEN seen.at_work = 0 THEN (
        SELECT max(known.touched_at) FROM {schema}.known_groups AS known WHERE known.queue_id = ready.queue_id
    ) END AS touched_at
FROM ready
CROSS JOIN LATERAL (
    SELECT (
        SELECT count(*) FROM {schema}.known_workers AS worker
        WHERE worker.queue_id = ready.queue_id AND worker.seen_at > clock_timestamp() - {schema}.silence()
    ) + (
        SELECT count(DISTINCT waiter.channel) FROM {schema}.waiters AS waiter JOIN pg_stat_activity AS activity
            ON 'seriatim_' || activity.pid = waiter.channel AND coalesce(activity.backend_start <= waiter.since, TRUE)
        WHERE waiter.queue_id = ready.queue_id
    ) + (
        SELECT count(*) FROM {schema}.leases AS lease
        WHERE lease.queue_id = ready.queue_id AND lease.expires_at > clock_timestamp()
    ) + (
        SELECT count(*) FROM locked
        WHERE locked.lock = ANY (ARRAY(
            SELECT {schema}.lock_of('reader ' || ready.queue_id || ' ' || slot) FROM generate_series(1, 64) AS slot
        ))
    ) + (
        SELECT count(*) FROM locked
        WHERE locked.lock = ANY (ARRAY(
            SELECT {schema}.group_lock(ready.queue_id, part.group_key) FROM (
                (
                    SELECT known.group_key FROM {schema}.known_groups AS known
                    WHERE known.queue_id = ready.queue_id AND known.ready_rank IS NOT NULL
                    ORDER BY known.ready_rank LIMIT 10000
                ) UNION (
                    SELECT entry.group_key FROM {schema}.entries AS entry
                    WHERE entry.queue_id = ready.queue_id AND entry.status = 'arrived'
                    ORDER BY entry.rank LIMIT 10000
                )
            ) AS part
        ))
    ) + CASE WHEN (ready.rule).name = 'unordered' THEN (
        SELECT count(*) FROM pg_stat_activity AS activity
        WHERE activity.datname = current_database() AND activity.application_name LIKE 'seriatim%%'
            AND activity.xact_start IS NOT NULL AND activity.pid <> pg_backend_pid()
    ) ELSE 0 END AS at_work
) AS seen
ORDER BY ready.queue
