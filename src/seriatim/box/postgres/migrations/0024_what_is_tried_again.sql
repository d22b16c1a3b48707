-- Faults of two more kinds; who writes a fault down learns which message it is; which messages may end their worker; what
-- isn't done, and why.

-- `kind`, besides those from before: unexpected (an exception of which nobody has said whether it passes) or bug (an error
-- in the code of the handler itself).
ALTER TABLE {schema}.faults DROP CONSTRAINT faults_kind_check;
ALTER TABLE {schema}.faults ADD CONSTRAINT faults_kind_check
CHECK (kind IN ('transient', 'business', 'unexpected', 'bug', 'poison', 'timeout'));

-- Write down that a handler failed at some messages, which were handed to it together, and count the attempt. The
-- caller has the lock of their group, and has put them back. With a `delay` their group waits, and nobody for it.
-- Answers with the first of them; with NULL where it isn't there any more.
DROP FUNCTION {schema}.note_fault(integer, text, bigint[], text, text, text, text, text, interval);
CREATE FUNCTION {schema}.note_fault(
    of_queue integer, of_group text, of_entries bigint[], its_kind text, its_class text, its_error text,
    its_traceback text, of_worker text, delay interval,
    OUT attempts integer, OUT now_us bigint, OUT message_id text, OUT type text, OUT sequence bigint
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
#variable_conflict use_column
DECLARE
    moment timestamptz := clock_timestamp();
    again timestamptz := moment + delay;
BEGIN
    PERFORM {schema}.permit_entries(of_queue, of_entries);
    now_us := (extract(epoch FROM moment) * 1000000)::bigint;
    UPDATE {schema}.entries AS entry SET attempt = entry.attempt + 1, visible_at = again
    WHERE entry.entry_id = ANY (of_entries) AND entry.queue_id = of_queue AND entry.group_key = of_group;
    INSERT INTO {schema}.faults AS fault (
        queue_id, group_key, entry_id, arrival_id, position, message_id, type, sequence, ordinal, attempt, kind,
        error_class, error, traceback, at, worker, retry_at
    )
    SELECT
        of_queue, of_group, entry.entry_id, entry.arrival_id, entry.position, stored.message_id, stored.type,
        entry.sequence, entry.ordinal, entry.attempt, its_kind, its_class, its_error, its_traceback, moment, of_worker,
        again
    FROM {schema}.entries AS entry
    JOIN {schema}.spool AS stored
        ON stored.arrival_id = ANY (ARRAY[entry.arrival_id]) AND stored.position = ANY (ARRAY[entry.position])
    WHERE entry.entry_id = of_entries[1] AND entry.queue_id = of_queue AND entry.group_key = of_group
    RETURNING fault.attempt, fault.message_id, fault.type, fault.sequence INTO attempts, message_id, type, sequence;
    IF again IS NULL THEN
        PERFORM {schema}.call_waiters(ARRAY[of_queue], 1);
    ELSE
        UPDATE {schema}.known_groups SET
            ready_rank = NULL, due_at = least(due_at, (extract(epoch FROM again) * 1000000)::bigint)
        WHERE queue_id = of_queue AND group_key = of_group;
    END IF;
END
$function$;

-- Has an attempt of a message ended its process, or taken too long? Then its last one is made alone in a process.
CREATE FUNCTION {schema}.has_ended_its_worker(of_queue integer, of_entry bigint) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    PERFORM {schema}.permit_entries(of_queue, ARRAY[of_entry]);
    RETURN EXISTS (
        SELECT FROM {schema}.faults AS fault
        WHERE fault.entry_id = of_entry AND fault.queue_id = of_queue AND fault.kind IN ('poison', 'timeout')
    );
END
$function$;

-- Keep a group from everybody but the turn that has it at this moment, by a lease: so who ends that turn can count its
-- attempt before anybody else begins one. NULL: the group is in a lease already.
CREATE FUNCTION {schema}.fence_group(
    of_queue integer, of_group text, of_entry bigint, of_worker text, period interval
) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    made bigint;
BEGIN
    PERFORM {schema}.permit_entries(of_queue, ARRAY[of_entry]);
    INSERT INTO {schema}.leases AS lease (queue_id, group_key, entry_ids, worker, expires_at)
    VALUES (of_queue, of_group, ARRAY[of_entry], of_worker, clock_timestamp() + period)
    ON CONFLICT DO NOTHING
    RETURNING lease.token INTO made;
    RETURN made;
END
$function$;

-- Where a message is that isn't done: a row for each queue that has it, with why it isn't handed out at this moment, and
-- until when if that is known. Reads without locks.
--
-- `why`: in_hand (a worker or a pipeline has it), off (the queue is), pipeline (the queue is one's), suspended and faulted
-- (the group is), retry (an attempt failed, of it or of the message before it), later (it, or the message before it, is for
-- later), held (a number before it is missing, or its set isn't complete), late (it came late, and an operator is to say),
-- stopped (its subscriptions aren't started), ready (nothing is in its way, or nobody has looked yet).
CREATE VIEW {schema}.not_done WITH (security_invoker = true) AS
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
    entry.status::text AS status, entry.sequence, entry.ordinal, entry.attempt,
    CASE
        WHEN fact.in_hand THEN 'in_hand'
        WHEN NOT place.enabled THEN 'off'
        WHEN place.owner IS NOT NULL THEN 'pipeline'
        WHEN coalesce(asked.suspends, known.flags & 8 <> 0) THEN 'suspended'
        WHEN known.flags & 16 <> 0 THEN 'faulted'
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
    SELECT one.visible_at, one.attempt FROM {schema}.entries AS one
    WHERE NOT kind.unordered AND one.queue_id = entry.queue_id AND one.group_key = entry.group_key
        AND one.status = 'queued'
    ORDER BY one.ordinal LIMIT 1
) AS first ON TRUE
CROSS JOIN LATERAL (
    SELECT
        entry.batch IS NOT NULL OR leased.entry_id IS NOT NULL OR running.xid IS NOT NULL
            OR (locked.lock IS NOT NULL AND entry.status <> 'held') AS in_hand,
        CASE
            WHEN entry.visible_at > clock_timestamp() THEN nullif(entry.visible_at, 'infinity')
            WHEN first.visible_at > clock_timestamp() THEN first.visible_at
        END AS until,
        CASE WHEN entry.visible_at > clock_timestamp() THEN entry.attempt ELSE first.attempt END AS attempt
) AS fact;
