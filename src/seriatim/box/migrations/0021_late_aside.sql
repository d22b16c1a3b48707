-- What was set aside remembers whether it had been flagged as late: put back once more, it still is.

ALTER TABLE {schema}.aside ADD COLUMN late boolean NOT NULL DEFAULT FALSE;

-- Write down what a turn decided, and give the messages that it hands out. The first arrays: a value for each of its
-- groups; then the entries that stay (held, or released and not handed out), those that are set aside, and the requests
-- that it has obeyed. All groups are locked by the caller.
CREATE OR REPLACE FUNCTION {schema}.decide(
    of_queue integer, group_keys text[], states bigint[], skipped text[], arrivals bigint[], decided text[],
    due_ats bigint[], ready_ranks bigint[],
    kept_ids bigint[], kept_statuses text[], kept_arrivals bigint[], kept_ordinals bigint[], kept_late boolean[],
    kept_waits boolean[],
    aside_ids bigint[], aside_dispositions text[], aside_reasons text[], aside_ordinals bigint[], obeyed_ids bigint[]
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $function$
BEGIN
    PERFORM {schema}.permit_entries(of_queue, kept_ids || aside_ids);
    INSERT INTO {schema}.groups AS known (
        queue_id, group_key, incarnation, flags, first, next, mark, last, ordinal, since, reports, clock, skipped,
        arrivals, decided, due_at, ready_rank
    )
    SELECT
        of_queue, new.group_key, (SELECT incarnation FROM {schema}.queues WHERE queue_id = of_queue), states[at + 1], states[at + 2], states[at + 3], states[at + 4], states[at + 5],
        states[at + 6], states[at + 7], states[at + 8], states[at + 9], new.skipped::bigint[], new.arrivals,
        new.decided::bigint[], new.due_at, new.ready_rank
    FROM unnest(group_keys, skipped, arrivals, decided, due_ats, ready_ranks)
        WITH ORDINALITY AS new (group_key, skipped, arrivals, decided, due_at, ready_rank, place),
        LATERAL (SELECT (place::integer - 1) * 9 AS at) AS part
    ON CONFLICT (queue_id, group_key) DO UPDATE SET
        flags = excluded.flags, first = excluded.first, next = excluded.next, mark = excluded.mark,
        last = excluded.last, ordinal = excluded.ordinal, since = excluded.since, reports = excluded.reports,
        clock = excluded.clock, skipped = excluded.skipped, arrivals = excluded.arrivals, decided = excluded.decided,
        due_at = excluded.due_at, ready_rank = excluded.ready_rank, touched_at = now();
    IF cardinality(kept_ids) > 0 THEN
        UPDATE {schema}.entries AS entry SET
            status = kept.status, arrival = kept.arrival, ordinal = kept.ordinal, late = kept.late, waits = kept.waits
        FROM unnest(kept_ids, kept_statuses, kept_arrivals, kept_ordinals, kept_late, kept_waits)
            AS kept (entry_id, status, arrival, ordinal, late, waits)
        WHERE entry.entry_id = kept.entry_id;
    END IF;
    IF cardinality(aside_ids) > 0 THEN
        WITH gone AS (
            DELETE FROM {schema}.entries AS entry
            USING unnest(aside_ids, aside_dispositions, aside_reasons, aside_ordinals)
                AS judged (entry_id, disposition, reason, ordinal)
            WHERE entry.entry_id = judged.entry_id
            RETURNING entry.*, judged.disposition, judged.reason, judged.ordinal AS left_as
        )
        INSERT INTO {schema}.aside (
            entry_id, queue_id, group_key, disposition, reason, arrival_id, position, sequence, size, priority,
            subscription_ids, ordinal, late, attempt
        )
        SELECT
            entry_id, queue_id, group_key, disposition, reason, arrival_id, position, sequence, size, priority,
            subscription_ids, left_as, late, attempt
        FROM gone;
    END IF;
    IF cardinality(obeyed_ids) > 0 THEN
        DELETE FROM {schema}.requests WHERE request_id = ANY (obeyed_ids) AND queue_id = of_queue;
    END IF;
END
$function$;

-- A message that was for an instance which has ended meanwhile, and that no activation can take: set aside as dead. The
-- caller has the lock of its group, and has been handed it.
CREATE OR REPLACE FUNCTION {schema}.set_stray_aside(of_queue integer, of_group text, of_message text, of_ordinal bigint, why text)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    WITH gone AS (
        DELETE FROM {schema}.entries AS entry USING {schema}.spool AS stored
        WHERE entry.queue_id = of_queue AND entry.group_key = of_group AND entry.arrival_id = stored.arrival_id
            AND entry.position = stored.position AND stored.message_id = of_message
        RETURNING entry.*
    )
    INSERT INTO {schema}.aside (
        entry_id, queue_id, group_key, disposition, reason, arrival_id, position, sequence, size, priority,
        subscription_ids, ordinal, late, attempt
    )
    SELECT
        entry_id, queue_id, group_key, 'dead', why, arrival_id, position, sequence, size, priority,
        subscription_ids, of_ordinal, late, attempt
    FROM gone;
END
$function$;

-- Set messages aside as dead that were released, and have the next turn of their group look what is ready now. The
-- caller has the lock of the group.
CREATE OR REPLACE FUNCTION {schema}.set_dead(of_queue integer, of_group text, of_entries bigint[], why text) RETURNS void
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
    SELECT queue_id, group_key, 'look', {schema}.now_us() FROM {schema}.groups
    WHERE queue_id = of_queue AND group_key = of_group;
END
$function$;

-- Put a dead letter back into its queue, under the lock of its group. `its_status`: queued with an ordinal, or arrived.
-- What never was released is dead no more, and counted anew; behind all others it is released now.
CREATE OR REPLACE FUNCTION {schema}.requeue(of_entry bigint, its_status text, its_ordinal bigint, to_the_end boolean) RETURNS boolean
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
        its_ordinal, to_the_end OR gone.late, gone.attempt
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

-- Take away what waits for a side in its queue, but for messages that its turn has in hand; with a reason it is set
-- aside, else it goes. The caller has the lock of its group.
CREATE OR REPLACE FUNCTION {schema}.drop_unread(of_handle uuid, in_hand text[], why text, from_sequence bigint DEFAULT NULL)
RETURNS void
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $function$
DECLARE
    own record;
    gone bigint;
BEGIN
    SELECT known.queue_id, known.group_id INTO own FROM {schema}.endpoints AS known WHERE known.handle = of_handle;
    WITH unread AS (
        DELETE FROM {schema}.entries AS entry USING {schema}.spool AS stored
        WHERE entry.queue_id = own.queue_id AND entry.group_key = own.group_id::text
            AND stored.arrival_id = entry.arrival_id AND stored.position = entry.position
            AND stored.context -> 'dialog' ->> 'handle' = of_handle::text AND stored.message_id <> ALL (in_hand)
            AND (from_sequence IS NULL OR (stored.context -> 'dialog' ->> 'sequence')::bigint >= from_sequence)
            -- The batch of a pipeline stays as it is.
            AND entry.batch IS NULL
        RETURNING entry.*
    ), kept AS (
        INSERT INTO {schema}.aside (
            entry_id, queue_id, group_key, disposition, reason, arrival_id, position, sequence, size, priority,
            subscription_ids, ordinal, late, attempt
        )
        SELECT
            entry_id, queue_id, group_key, 'dead', why, arrival_id, position, sequence, size, priority,
            subscription_ids, ordinal, late, attempt
        FROM unread WHERE why IS NOT NULL
    ), removed AS (
        DELETE FROM {schema}.spool AS stored USING unread
        WHERE why IS NULL AND stored.arrival_id = unread.arrival_id AND stored.position = unread.position
    )
    SELECT count(*) INTO gone FROM unread;
    IF gone > 0 THEN
        INSERT INTO {schema}.requests (queue_id, group_key, action, rank)
        VALUES (own.queue_id, own.group_id::text, 'look', {schema}.now_us());
    END IF;
END
$function$;
