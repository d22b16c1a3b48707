-- What an operator sees and does.

-- What a group shows; the rule is that of kernel/states.py. A complete set is closed and leaves all the same.
CREATE FUNCTION {schema}.shown_state(flags bigint, suspended boolean, locked boolean, hole boolean, overdue boolean)
RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
    WHEN flags & 2 <> 0 AND NOT (flags & 4 <> 0 AND flags & 16 <> 0) THEN 'closed'
    WHEN suspended THEN 'suspended'
    WHEN flags & 16 <> 0 THEN 'faulted'
    WHEN locked THEN 'locked'
    WHEN hole AND overdue THEN 'timed_out'
    WHEN hole THEN 'waiting'
    ELSE 'ready'
END;

-- The groups as they stand, read without locks. `state`: what a group shows; the rules are those of kernel/states.py.
-- `arrived`: not judged yet, so not in the state either; `in_hand`: of a pipeline. `hole_since`, `due_at`: NULL where nothing is open, or due.
-- `next`, `last_released` and `hole_through` are sequences as numbers: microseconds where a queue goes by time.
CREATE OR REPLACE VIEW {schema}.group_states AS
WITH locked AS MATERIALIZED (
    SELECT (classid::bigint << 32) | objid::bigint AS lock FROM pg_locks
    WHERE locktype = 'advisory' AND objsubid = 1 AND granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
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
CROSS JOIN LATERAL jsonb_to_record(place.definition -> 'policy') AS policy (
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

-- Bodies that operators have put in the place of others: of an entry the newest counts. What was published stays in the
-- spool as it was.
CREATE TABLE {schema}.edited_bodies (
    entry_id bigint NOT NULL,
    edit_id bigint GENERATED ALWAYS AS IDENTITY,
    body bytea NOT NULL,
    edited_at timestamptz NOT NULL DEFAULT now(),
    edited_by text NOT NULL,
    PRIMARY KEY (entry_id, edit_id)
);

CREATE INDEX faults_of_message ON {schema}.faults (message_id);

CREATE INDEX groups_faulted ON {schema}.groups (queue_id, group_key) WHERE flags & 16 <> 0;

CREATE INDEX aside_dead ON {schema}.aside (queue_id, entry_id) WHERE disposition = 'dead';

-- The bodies that count, of those entries whose bodies were edited.
CREATE FUNCTION {schema}.edited(of_queue integer, of_entries bigint[]) RETURNS TABLE (entry_id bigint, body bytea)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    PERFORM {schema}.permit_entries(of_queue, of_entries);
    RETURN QUERY
    SELECT DISTINCT ON (one.entry_id) one.entry_id, one.body
    FROM {schema}.edited_bodies AS one JOIN {schema}.entries AS entry USING (entry_id)
    WHERE one.entry_id = ANY (of_entries) AND entry.queue_id = of_queue
    ORDER BY one.entry_id, one.edit_id DESC;
END
$function$;

-- Put a dead letter back into its queue, under the lock of its group. `its_status`: queued with an ordinal, or arrived.
-- What never was released is dead no more, and counted anew; behind all others it is released now.
CREATE FUNCTION {schema}.requeue(of_entry bigint, its_status text, its_ordinal bigint, to_the_end boolean) RETURNS boolean
LANGUAGE plpgsql
SET enable_seqscan = off
AS $function$
DECLARE
    gone record;
BEGIN
    DELETE FROM {schema}.aside AS letter WHERE letter.entry_id = of_entry AND letter.disposition = 'dead'
    RETURNING letter.* INTO gone;
    IF gone.entry_id IS NULL THEN
        RETURN FALSE;
    END IF;
    INSERT INTO {schema}.entries (
        entry_id, queue_id, group_key, status, rank, arrival_id, position, sequence, size, priority, subscription_ids,
        ordinal, late, attempt
    )
    SELECT
        gone.entry_id, gone.queue_id, gone.group_key, its_status,
        (extract(epoch FROM stored.received_at) * 1000000)::bigint - (gone.priority - 5) * 10000000,
        gone.arrival_id, gone.position, gone.sequence, gone.size, gone.priority, gone.subscription_ids,
        its_ordinal, to_the_end, gone.attempt
    FROM {schema}.spool AS stored WHERE stored.arrival_id = gone.arrival_id AND stored.position = gone.position;
    UPDATE {schema}.groups AS known SET
        ordinal = known.ordinal + to_the_end::integer,
        arrivals = known.arrivals - (gone.ordinal IS NULL AND NOT to_the_end)::integer,
        decided = CASE WHEN gone.ordinal IS NOT NULL THEN known.decided ELSE
            (known.decided[1] + to_the_end::integer) || known.decided[2:6] || (known.decided[7] - 1) END
    WHERE known.queue_id = gone.queue_id AND known.group_key = gone.group_key;
    RETURN TRUE;
END
$function$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA {schema} FROM PUBLIC;
