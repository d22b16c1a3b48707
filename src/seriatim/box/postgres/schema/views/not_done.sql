-- The place of each message that isn't done: a row for each queue that has it, with the reason why it isn't handed
-- out at this moment, and until when if that is known. Reads without locks.
--
-- `why`: in_hand (a worker or a pipeline has it), off (the queue is), pipeline (the queue is one's), suspended and
-- faulted (the group is), failed (the message is faulted by itself), place_open (at a gate, until its place is
-- closed), postponed (by its receiver, it or the message before it), retry (an attempt failed, of it or of the
-- message before it), later (it, or the message before it, is for later), late (it is late, and an operator decides),
-- held (a number before it is missing, or its set isn't complete), stopped (its subscriptions aren't started), ready
-- (nothing is in its way, or no receiver has looked yet).
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
    entry.entry_id, entry.queue_id, place.queue, nullif(entry.group_key, '') AS group_key, entry.arrival_id,
    entry.position,
    CASE entry.status WHEN 'placed' THEN 'held' ELSE entry.status::text END AS status, entry.sequence, entry.ordinal,
    entry.attempt,
    CASE
        WHEN fact.in_hand THEN 'in_hand'
        WHEN NOT place.enabled THEN 'off'
        WHEN place.owner IS NOT NULL THEN 'pipeline'
        WHEN coalesce(asked.suspends, known.flags & {flag.SUSPENDED} <> 0) THEN 'suspended'
        WHEN known.flags & {flag.FAULTED} <> 0 THEN 'faulted'
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
CROSS JOIN LATERAL (SELECT place.definition #>> '{policy,name}' = 'unordered' AS unordered) AS kind
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
