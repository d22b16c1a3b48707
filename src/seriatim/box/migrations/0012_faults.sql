-- What handlers failed at, and what becomes of it.

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
    FROM {schema}.entries AS entry JOIN {schema}.spool AS stored USING (arrival_id, position)
    WHERE entry.entry_id = of_entries[1] AND entry.queue_id = of_queue AND entry.group_key = of_group
    RETURNING fault.attempt INTO attempts;
    IF again IS NULL THEN
        PERFORM {schema}.call_waiters(ARRAY[of_queue], 1);
    ELSE
        UPDATE {schema}.groups SET
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
        subscription_ids, ordinal, attempt
    )
    SELECT
        entry_id, queue_id, group_key, 'dead', why, arrival_id, position, sequence, size, priority,
        subscription_ids, ordinal, attempt
    FROM gone;
    INSERT INTO {schema}.requests (queue_id, group_key, action, rank)
    SELECT queue_id, group_key, 'look', {schema}.now_us() FROM {schema}.groups
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

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA {schema} FROM PUBLIC;
