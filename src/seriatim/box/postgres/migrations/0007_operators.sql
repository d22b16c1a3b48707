-- What operators see and do, and what handlers fail at.

-- Lock a group for an operator, who waits for it at most so long. One that is in a lease is somebody's.
CREATE FUNCTION {schema}.lock_patiently(of_queue integer, of_group text, patience_ms integer) RETURNS boolean
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

-- The rule of order that has suspended a group, and the number that came: of the first late message that is held; NULL:
-- there is none any more. `first`: the number that began the group. The words are those of kernel/outcome.py.
CREATE FUNCTION {schema}.late_because(policy text, first bigint, sequence bigint) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
    WHEN sequence IS NULL THEN 'a late message (late="suspend"), which is there no more'
    ELSE 'a late message, sequence ' || sequence || ' (late="suspend"): ' || CASE
        WHEN policy = 'best_effort' THEN 'a higher sequence left in an earlier round'
        WHEN sequence < first THEN 'its number is below the one that began the group'
        ELSE 'its number was skipped before'
    END
END;

-- The groups as they stand, read without locks. `state`: what a group shows; the rules are those of kernel/states.py.
-- `arrived`: not judged yet, so not in the state either; `in_hand`: of a pipeline. `hole_since`, `due_at`: NULL where nothing is open, or due.
-- `next`, `last_released` and `hole_through` are sequences as numbers: microseconds where a queue goes by time.
-- `suspended_by`: NULL where a rule of order has suspended it; `suspended_because` says which.
CREATE VIEW {schema}.groups AS
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
    CASE WHEN said.action = 'suspend' THEN said.actor END AS suspended_by,
    CASE
        WHEN said.action = 'suspend' THEN said.reason
        WHEN fact.suspended THEN {schema}.late_because(policy.name, known.first, came.sequence)
    END AS suspended_because,
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
    WHERE fact.suspended AND log.queue = place.queue AND log.group_key = known.group_key
        AND action IN ('suspend', 'resume', 'skip_message', 'forget')
    ORDER BY operation_id DESC LIMIT 1
) AS said ON TRUE
LEFT JOIN LATERAL (
    SELECT late.sequence FROM {schema}.entries AS late
    WHERE fact.suspended AND said.action IS DISTINCT FROM 'suspend' AND late.queue_id = known.queue_id
        AND late.group_key = known.group_key AND late.status = 'held' AND late.late
    ORDER BY late.arrival LIMIT 1
) AS came ON TRUE
WHERE policy.name <> 'unordered';

-- What each queue has, and what it has set aside. `in_hand`: of a pipeline; what a worker has is counted as it was
-- before. `oldest`: when the one came that has been there longest.
CREATE VIEW {schema}.queue_counts AS
SELECT
    place.queue,
    place.definition -> 'policy' ->> 'name' AS policy,
    place.enabled,
    place.owner,
    entry.arrived,
    entry.held,
    entry.queued,
    entry.in_hand,
    aside.late,
    aside.duplicate,
    aside.invalid,
    aside.rejected,
    aside.dead,
    to_timestamp(entry.oldest_us / 1e6) AS oldest,
    (place.definition ->> 'max_messages')::bigint AS max_messages
FROM {schema}.queues AS place
CROSS JOIN LATERAL (
    SELECT
        count(*) FILTER (WHERE status = 'arrived') AS arrived,
        count(*) FILTER (WHERE status = 'held') AS held,
        count(*) FILTER (WHERE status = 'queued') AS queued,
        count(*) FILTER (WHERE status = 'in_hand') AS in_hand,
        min(rank + (priority - 5) * 10000000) AS oldest_us
    FROM {schema}.entries AS one WHERE one.queue_id = place.queue_id
) AS entry
CROSS JOIN LATERAL (
    SELECT
        count(*) FILTER (WHERE disposition = 'late') AS late,
        count(*) FILTER (WHERE disposition = 'duplicate') AS duplicate,
        count(*) FILTER (WHERE disposition = 'invalid') AS invalid,
        count(*) FILTER (WHERE disposition = 'rejected') AS rejected,
        count(*) FILTER (WHERE disposition = 'dead') AS dead
    FROM {schema}.aside AS one WHERE one.queue_id = place.queue_id
) AS aside;

-- What handlers failed at: a row each time. Rows are only added. `kind`: transient (retry helps), business (it doesn't),
-- poison (its worker died of it) or timeout (the turn took too long). `retry_at`: when it is tried again by itself.
CREATE TABLE {schema}.faults (
    fault_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue_id integer NOT NULL,
    group_key text COLLATE "C" NOT NULL,
    entry_id bigint NOT NULL,
    arrival_id bigint NOT NULL,
    position bigint NOT NULL,
    message_id text NOT NULL,
    type text NOT NULL,
    sequence bigint,
    ordinal bigint,
    attempt integer NOT NULL CHECK (attempt > 0),
    kind text NOT NULL CHECK (kind IN ('transient', 'business', 'poison', 'timeout')),
    error_class text NOT NULL,
    error text NOT NULL,
    traceback text NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    worker text NOT NULL,
    retry_at timestamptz
);
CREATE INDEX faults_of_group ON {schema}.faults (queue_id, group_key, fault_id);
CREATE INDEX faults_of_entry ON {schema}.faults (entry_id);

-- Lock a group for whoever writes down what its worker, which is gone, failed at; that one waits so long. A worker that
-- has the group meanwhile isn't disturbed.
CREATE FUNCTION {schema}.lock_for_fault(
    of_queue integer, of_group text, patience_ms integer,
    OUT locked boolean, OUT now_us bigint, OUT isolation text, OUT version bigint
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    locked := {schema}.lock_patiently(of_queue, of_group, patience_ms);
    now_us := {schema}.now_us();
    isolation := current_setting('transaction_isolation');
    version := (SELECT max(change.version) FROM {schema}.changes AS change);
END
$function$;

-- Write down that a handler failed at some messages, which were handed to it together, and count the attempt. The
-- caller has the lock of their group, and has put them back. With a `delay` their group waits, and nobody for it.
-- Answers with NULL where the first of them isn't there any more.
CREATE FUNCTION {schema}.note_fault(
    of_queue integer, of_group text, of_entries bigint[], its_kind text, its_class text, its_error text,
    its_traceback text, of_worker text, delay interval,
    OUT attempts integer, OUT now_us bigint
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
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
    RETURNING fault.attempt INTO attempts;
    IF again IS NULL THEN
        PERFORM {schema}.call_waiters(ARRAY[of_queue], 1);
    ELSE
        UPDATE {schema}.known_groups SET
            ready_rank = NULL, due_at = least(due_at, (extract(epoch FROM again) * 1000000)::bigint)
        WHERE queue_id = of_queue AND group_key = of_group;
    END IF;
END
$function$;

-- Set messages aside as dead that were released, and have the next turn of their group look what is ready now. The
-- caller has the lock of the group.
CREATE FUNCTION {schema}.set_dead(of_queue integer, of_group text, of_entries bigint[], why text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    PERFORM {schema}.permit_entries(of_queue, of_entries);
    WITH gone AS (
        DELETE FROM {schema}.entries AS entry
        WHERE entry.entry_id = ANY (of_entries) AND entry.queue_id = of_queue AND entry.group_key = of_group
        RETURNING entry.*
    )
    INSERT INTO {schema}.aside (
        entry_id, queue_id, group_key, disposition, reason, arrival_id, position, sequence, size, priority,
        subscription_ids, ordinal, late, attempt
    )
    SELECT
        entry_id, queue_id, group_key, 'dead', why, arrival_id, position, sequence, size, priority,
        subscription_ids, ordinal, late, attempt
    FROM gone;
    INSERT INTO {schema}.requests (queue_id, group_key, action, rank)
    SELECT queue_id, group_key, 'look', {schema}.now_us() FROM {schema}.known_groups
    WHERE queue_id = of_queue AND group_key = of_group;
END
$function$;

-- Turn a queue off because a handler failed for good, and write down who did and why.
CREATE FUNCTION {schema}.stop_queue(of_queue integer, of_group text, of_worker text, why text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    stopped text;
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    PERFORM pg_advisory_xact_lock(hashtextextended('seriatim definitions', '{schema}'::regnamespace::oid::bigint));
    UPDATE {schema}.queues SET enabled = FALSE WHERE queue_id = of_queue AND enabled RETURNING queue INTO stopped;
    IF stopped IS NULL THEN
        RETURN;
    END IF;
    INSERT INTO {schema}.changes (version, what)
    SELECT max(version) + 1, format('turned off queue %s: %s', stopped, why) FROM {schema}.changes;
    INSERT INTO {schema}.operator_log (actor, action, queue, group_key, reason)
    VALUES (of_worker, 'stop', stopped, of_group, why);
END
$function$;

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

-- Put messages of one group that were set aside back into their queue, under the lock of the group; answers how many.
-- `its_statuses`: queued with an ordinal, or arrived. What never was released is set aside no more, and counted anew; behind
-- all others it is released now.
CREATE FUNCTION {schema}.requeue(
    of_queue integer, of_group text, of_entries bigint[], its_statuses text[], its_ordinals bigint[], to_the_end boolean[]
) RETURNS bigint
LANGUAGE plpgsql
SET enable_seqscan = off
AS $function$
DECLARE
    moved record;
BEGIN
    WITH gone AS (
        DELETE FROM {schema}.aside AS one
        USING unnest(of_entries, its_statuses, its_ordinals, to_the_end) AS goes (entry_id, status, ordinal, late)
        WHERE one.entry_id = goes.entry_id AND one.queue_id = of_queue AND one.group_key = of_group
        RETURNING one.*, goes.status AS its_status, goes.ordinal AS its_ordinal, goes.late AS to_the_end
    ), entered AS (
        INSERT INTO {schema}.entries (
            entry_id, queue_id, group_key, status, rank, arrival_id, position, sequence, size, priority,
            subscription_ids, ordinal, late, attempt
        )
        SELECT
            gone.entry_id, gone.queue_id, gone.group_key, gone.its_status,
            (extract(epoch FROM stored.received_at) * 1000000)::bigint - (gone.priority - 5) * 10000000,
            gone.arrival_id, gone.position, gone.sequence, gone.size, gone.priority, gone.subscription_ids,
            gone.its_ordinal, gone.to_the_end OR gone.late, gone.attempt
        FROM gone JOIN {schema}.spool AS stored USING (arrival_id, position)
    )
    SELECT
        count(*) AS messages,
        count(*) FILTER (WHERE gone.to_the_end) AS ended,
        -- What was released before stays counted as released.
        count(*) FILTER (WHERE gone.to_the_end AND gone.ordinal IS NULL) AS released,
        count(*) FILTER (WHERE NOT gone.to_the_end AND gone.ordinal IS NULL) AS arrived,
        count(*) FILTER (WHERE gone.disposition = 'late') AS late,
        count(*) FILTER (WHERE gone.disposition = 'duplicate') AS duplicate,
        count(*) FILTER (WHERE gone.disposition = 'rejected') AS rejected,
        count(*) FILTER (WHERE gone.disposition = 'dead' AND gone.ordinal IS NULL) AS dead
    INTO moved FROM gone;
    UPDATE {schema}.known_groups AS known SET
        ordinal = known.ordinal + moved.ended,
        arrivals = known.arrivals - moved.arrived,
        decided = ARRAY[
            known.decided[1] + moved.released, known.decided[2], known.decided[3] - moved.late,
            known.decided[4] - moved.duplicate, known.decided[5], known.decided[6] - moved.rejected,
            known.decided[7] - moved.dead
        ]
    WHERE known.queue_id = of_queue AND known.group_key = of_group;
    RETURN moved.messages;
END
$function$;

-- The queues that have an activation and that the caller may receive from. `ready`: in how many of its groups there is
-- something to do; of a queue without order, how many messages. It is counted to one more than there may be readers, and
-- of what nobody has judged yet only the first thousand are looked at.
CREATE FUNCTION {schema}.activations()
RETURNS TABLE (
    queue_id integer, queue text, activation jsonb, enabled boolean, activated boolean, owner text, ready integer
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
#variable_conflict use_column
DECLARE
    at_us bigint := {schema}.now_us();
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[]::integer[]);
    RETURN QUERY
    SELECT
        place.queue_id, place.queue, place.definition -> 'activation', place.enabled, place.activated, place.owner,
        CASE WHEN place.definition -> 'policy' ->> 'name' = 'unordered' THEN loose.ready ELSE grouped.ready END
    FROM {schema}.queues AS place
    CROSS JOIN LATERAL (
        SELECT (place.definition -> 'activation' ->> 'maximum')::integer + 1 AS readers
    ) AS most
    CROSS JOIN LATERAL (
        SELECT count(*)::integer AS ready FROM (
            SELECT FROM {schema}.entries AS entry
            WHERE place.definition -> 'policy' ->> 'name' = 'unordered' AND entry.queue_id = place.queue_id
                AND entry.status = 'arrived' AND (entry.visible_at IS NULL OR entry.visible_at <= clock_timestamp())
                AND (entry.subscription_ids <> '{{}}' AND entry.subscription_ids <@ (
                    SELECT array_agg(known.subscription_id) FROM {schema}.known_subscriptions AS known
                    WHERE known.queue_id = place.queue_id AND known.state <> 'started'
                )) IS NOT TRUE
            LIMIT most.readers
        ) AS entry
    ) AS loose
    CROSS JOIN LATERAL (
        SELECT count(*)::integer AS ready FROM (
            SELECT DISTINCT one.group_key FROM (
                (
                    SELECT known.group_key FROM {schema}.known_groups AS known
                    WHERE known.queue_id = place.queue_id AND known.ready_rank IS NOT NULL
                    ORDER BY known.ready_rank LIMIT most.readers
                ) UNION ALL (
                    SELECT known.group_key FROM {schema}.known_groups AS known
                    WHERE known.queue_id = place.queue_id AND known.due_at <= at_us
                    ORDER BY known.due_at LIMIT most.readers
                ) UNION ALL (
                    SELECT entry.group_key FROM {schema}.entries AS entry
                    WHERE entry.queue_id = place.queue_id AND entry.status = 'arrived' ORDER BY entry.rank LIMIT 1000
                ) UNION ALL (
                    SELECT asked.group_key FROM {schema}.requests AS asked
                    WHERE asked.queue_id = place.queue_id ORDER BY asked.rank LIMIT most.readers
                )
            ) AS one
            LIMIT most.readers
        ) AS known
    ) AS grouped
    WHERE place.definition -> 'activation' <> 'null'::jsonb
        AND ({schema}.is_owner() OR place.queue_id = ANY ({schema}.permitted('receive')));
END
$function$;

-- What failures tell of messages that are in queues, or were set aside from them; of the queues that the caller may
-- receive from.
CREATE FUNCTION {schema}.failed_messages(of_entries bigint[])
RETURNS TABLE (
    entry_id bigint, queue_id integer, group_key text, message_id text, type text, context text, property_types jsonb,
    ordinal bigint, attempt integer, disposition text, reason text
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
#variable_conflict use_column
DECLARE
    permitted integer[] := {schema}.permitted('receive');
    is_owner boolean := {schema}.is_owner();
BEGIN
    PERFORM {schema}.permit_anything();
    RETURN QUERY
    SELECT one.entry_id, one.queue_id, one.group_key, stored.message_id, stored.type, stored.context::text,
        stored.property_types, one.ordinal, one.attempt, one.disposition, one.reason
    FROM (
        SELECT entry.entry_id, entry.queue_id, entry.group_key, entry.arrival_id, entry.position, entry.ordinal,
            entry.attempt, NULL AS disposition, '' AS reason
        FROM {schema}.entries AS entry WHERE entry.entry_id = ANY (of_entries)
        UNION ALL
        SELECT gone.entry_id, gone.queue_id, gone.group_key, gone.arrival_id, gone.position, gone.ordinal,
            gone.attempt, gone.disposition, gone.reason
        FROM {schema}.aside AS gone WHERE gone.entry_id = ANY (of_entries)
    ) AS one
    JOIN {schema}.spool AS stored
        ON stored.arrival_id = ANY (ARRAY[one.arrival_id]) AND stored.position = ANY (ARRAY[one.position])
    WHERE is_owner OR one.queue_id = ANY (permitted)
    ORDER BY one.entry_id;
END
$function$;

-- Of some groups the message behind a hole that ends at these numbers, if there is one: its entry, for each group.
CREATE FUNCTION {schema}.behind_holes(of_queue integer, of_groups text[], of_lasts bigint[]) RETURNS bigint[]
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    RETURN ARRAY(
        SELECT (
            SELECT entry.entry_id FROM {schema}.entries AS entry
            WHERE entry.queue_id = of_queue AND entry.group_key = hole.of_group AND entry.sequence > hole.of_last
            ORDER BY entry.sequence LIMIT 1
        )
        FROM unnest(of_groups, of_lasts) WITH ORDINALITY AS hole (of_group, of_last, place) ORDER BY hole.place
    );
END
$function$;

-- Which of these messages (NULL: of all) this transaction has published so that nobody wanted them, or a queue has set
-- them aside as invalid, and what was wrong with them. Where nobody wanted one, `queue_id` is NULL.
CREATE FUNCTION {schema}.kept_out(message_ids text[])
RETURNS TABLE (
    queue_id integer, group_key text, message_id text, type text, context text, property_types jsonb, problem text
)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
#variable_conflict use_column
BEGIN
    PERFORM {schema}.permit('publish', ARRAY[]::integer[]);
    RETURN QUERY
    SELECT found.queue_id, found.group_key, stored.message_id, stored.type, stored.context::text,
        stored.property_types, found.problem
    FROM {schema}.arrivals AS arrival
    CROSS JOIN LATERAL (
        SELECT waiting.position, NULL::integer AS queue_id, NULL AS group_key, waiting.problem
        FROM {schema}.unrouted AS waiting WHERE waiting.arrival_id = arrival.arrival_id
        UNION ALL
        SELECT gone.position, gone.queue_id, gone.group_key, gone.reason
        FROM {schema}.aside AS gone WHERE gone.arrival_id = arrival.arrival_id AND gone.disposition = 'invalid'
    ) AS found
    JOIN {schema}.spool AS stored ON stored.arrival_id = arrival.arrival_id AND stored.position = found.position
    WHERE arrival.transaction = pg_current_xact_id_if_assigned()
        AND (kept_out.message_ids IS NULL OR stored.message_id = ANY (kept_out.message_ids))
    ORDER BY arrival.arrival_id, found.position, found.queue_id;
END
$function$;
