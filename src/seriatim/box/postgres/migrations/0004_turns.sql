-- Turns: a group is locked, what it has is judged and handed out, and completed with the transaction.

-- Is there something for a turn to do in a group?
CREATE FUNCTION {schema}.has_work(of_queue integer, of_group text, now_us bigint) RETURNS boolean
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $function$
BEGIN
    RETURN EXISTS (
        -- What the transaction itself has put there is numbered at its commit, and no turn sees it before.
        SELECT FROM {schema}.entries AS entry JOIN {schema}.tickets AS run ON run.arrival_id = ANY (ARRAY[entry.arrival_id])
        WHERE entry.queue_id = of_queue AND entry.group_key = of_group
            -- Said so that the index of all that has arrived isn't one to choose, here and elsewhere.
            AND entry.status >= 'arrived' AND entry.status <= 'arrived'
    ) OR EXISTS (
        SELECT FROM {schema}.known_groups
        WHERE queue_id = of_queue AND group_key = of_group AND (ready_rank IS NOT NULL OR due_at <= now_us)
    ) OR EXISTS (
        SELECT FROM {schema}.requests WHERE queue_id = of_queue AND group_key = of_group
    );
END
$function$;

-- Lock a group that has something to do. What it finds is younger than the lock. A group without anything to do is
-- not locked: that is what the block is for, which takes the lock back.
CREATE FUNCTION {schema}.lock_group(of_queue integer, of_group text, now_us bigint) RETURNS boolean
LANGUAGE plpgsql
AS $function$
BEGIN
    IF NOT pg_try_advisory_xact_lock({schema}.group_lock(of_queue, of_group)) THEN
        RETURN FALSE;
    END IF;
    IF NOT EXISTS (SELECT FROM {schema}.leases WHERE queue_id = of_queue AND group_key = of_group)
        AND {schema}.has_work(of_queue, of_group, now_us) THEN
        -- Whoever wanted the group to be looked at committed before; the turn reads after this.
        DELETE FROM {schema}.requests WHERE queue_id = of_queue AND group_key = of_group AND action = 'look';
        RETURN TRUE;
    END IF;
    RAISE EXCEPTION 'nothing to do' USING ERRCODE = 'SQ001';
EXCEPTION WHEN SQLSTATE 'SQ001' THEN
    RETURN FALSE;
END
$function$;

-- Where a queue begins: the lowest rank of what is ready or has arrived, of groups that somebody has, too, and at most
-- that of a message which comes now; and how long it took to find that, microseconds. What is done stands before it in
-- the indexes until it is vacuumed, and as long as a transaction is held open somewhere it can't be. So whoever looks for
-- the next group begins there, `from_rank`, and looks at all only if he finds none. The lowest number there is stands for
-- all.
CREATE FUNCTION {schema}.head_of(of_queue integer, OUT rank bigint, OUT took_us bigint)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET plan_cache_mode = force_generic_plan
AS $function$
DECLARE
    began bigint := {schema}.now_us();
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    rank := least(
        (
            SELECT known.ready_rank FROM {schema}.known_groups AS known
            WHERE known.queue_id = of_queue AND known.ready_rank IS NOT NULL ORDER BY known.ready_rank LIMIT 1
        ), (
            SELECT entry.rank FROM {schema}.entries AS entry
            WHERE entry.queue_id = of_queue AND entry.status = 'arrived' ORDER BY entry.rank LIMIT 1
        ), began
    );
    took_us := {schema}.now_us() - began;
END
$function$;

-- Lock the next groups of a queue that have something to do, at most `how_many`: those of lowest rank first. The four
-- indexes are merged (each is asked for its order, or all would be read and sorted), and read no further than needed.
CREATE FUNCTION {schema}.lock_next(of_queue integer, how_many integer, now_us bigint, from_rank bigint) RETURNS text[]
LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET plan_cache_mode = force_generic_plan
AS $function$
DECLARE
    candidate text;
    tried text[] := ARRAY[]::text[];
    taken text[] := ARRAY[]::text[];
BEGIN
    FOR candidate IN
        SELECT group_key FROM (
            (
                SELECT group_key, ready_rank AS rank FROM {schema}.known_groups
                WHERE queue_id = of_queue AND ready_rank >= from_rank ORDER BY ready_rank
            ) UNION ALL (
                SELECT group_key, rank FROM {schema}.entries
                WHERE queue_id = of_queue AND status = 'arrived' AND rank >= from_rank ORDER BY rank
            ) UNION ALL (
                SELECT group_key, due_at FROM {schema}.known_groups
                WHERE queue_id = of_queue AND due_at <= now_us ORDER BY due_at
            ) UNION ALL (
                SELECT group_key, rank FROM {schema}.requests WHERE queue_id = of_queue ORDER BY rank
            )
        ) AS known
        ORDER BY rank
    LOOP
        CONTINUE WHEN candidate = ANY (tried);
        tried := tried || candidate;
        CONTINUE WHEN NOT {schema}.lock_group(of_queue, candidate, now_us);
        taken := taken || candidate;
        EXIT WHEN cardinality(taken) >= how_many;
    END LOOP;
    IF cardinality(taken) = 0 AND from_rank > -9223372036854775808 THEN
        RETURN {schema}.lock_next(of_queue, how_many, now_us, -9223372036854775808);
    END IF;
    RETURN taken;
END
$function$;

-- Hand out what was released before, of the group of lowest rank that has some, and lock that group: no rule has to be
-- asked. Answers with no row where there is none, where a group that has something to judge has waited longer, where an
-- operator has asked something, or a subscription isn't started: then a turn has to look. `from_rank`: see `head_of`.
CREATE FUNCTION {schema}.hand_out(of_queue integer, named text, at_most integer, at_us bigint, from_rank bigint)
RETURNS TABLE (
    version bigint, isolation text, group_key text, incarnation integer, entry_id bigint, sequence bigint,
    ordinal bigint, late boolean, message_id text, type text, content_type text, context text, property_types jsonb,
    body bytea, received_at timestamptz, location text, epoch bigint, number bigint, attempt integer,
    priority smallint, subscription_ids integer[], parts integer
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $function$
DECLARE
    moment timestamptz := coalesce(to_timestamp(at_us / 1e6), clock_timestamp());
    around record;
    candidate text;
    tried text[] := ARRAY[]::text[];
    chosen text;
    of_incarnation integer;
    line record;
    leaving integer;
    following integer;
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    SELECT
        EXISTS (SELECT FROM {schema}.requests AS request WHERE request.queue_id = of_queue) OR EXISTS (
            SELECT FROM {schema}.known_subscriptions AS one WHERE one.queue_id = of_queue AND one.state <> 'started'
        ) AS judges,
        (
            SELECT entry.rank FROM {schema}.entries AS entry
            WHERE entry.queue_id = of_queue AND entry.status = 'arrived' AND entry.rank >= from_rank AND named IS NULL
            ORDER BY entry.rank LIMIT 1
        ) AS oldest,
        (SELECT max(change.version) FROM {schema}.changes AS change) AS version
    INTO around;
    IF around.judges THEN
        RETURN;
    END IF;
    LOOP
        -- A group that isn't handed out of is not locked: the block takes the lock back.
        BEGIN
            SELECT next.key INTO candidate
            FROM (
                SELECT known.group_key AS key FROM {schema}.known_groups AS known
                WHERE known.queue_id = of_queue AND known.ready_rank >= from_rank
                    AND (named IS NULL OR known.group_key = named) AND known.group_key <> ALL (tried)
                    AND (around.oldest IS NULL OR known.ready_rank <= around.oldest)
                ORDER BY known.ready_rank LIMIT 1000
            ) AS next
            -- The locks of as many groups are asked for as somebody else has, and one more.
            WHERE pg_try_advisory_xact_lock({schema}.group_lock(of_queue, next.key))
            LIMIT 1;
            EXIT WHEN NOT FOUND;
            -- A statement of its own: its snapshot is younger than the lock. A request may have come before, and is obeyed
            -- by a turn that judges. The line: as much as is asked for, and the one behind it.
            SELECT
                (
                    SELECT known.ready_rank IS NOT NULL FROM {schema}.known_groups AS known
                    WHERE known.queue_id = of_queue AND known.group_key = candidate
                ) AND NOT EXISTS (
                    SELECT FROM {schema}.requests WHERE queue_id = of_queue AND requests.group_key = candidate
                ) AND NOT EXISTS (
                    SELECT FROM {schema}.leases WHERE queue_id = of_queue AND leases.group_key = candidate
                ) AS is_ready,
                count(*) AS waiting,
                array_agg(one.ordinal) AS ordinals,
                array_agg(one.rank) AS ranks,
                array_agg(one.visible_at) AS visible,
                array_agg(coalesce(one.visible_at > moment, FALSE)) AS hidden
            INTO line
            FROM (
                SELECT entry.ordinal, entry.rank, entry.visible_at FROM {schema}.entries AS entry
                WHERE entry.queue_id = of_queue AND entry.group_key = candidate AND entry.status = 'queued'
                ORDER BY entry.ordinal LIMIT at_most + 1::bigint
            ) AS one;
            IF line.is_ready THEN
                chosen := candidate;
                EXIT;
            END IF;
            RAISE EXCEPTION 'nothing to hand out' USING ERRCODE = 'SQ001';
        EXCEPTION WHEN SQLSTATE 'SQ001' THEN
            tried := tried || candidate;
        END;
    END LOOP;
    IF chosen IS NULL THEN
        RETURN;
    END IF;
    -- Where it has less than is asked for, and more has arrived, that is judged first; the group stays locked for it.
    IF line.waiting < at_most THEN
        PERFORM FROM {schema}.entries AS one
        WHERE one.queue_id = of_queue AND one.group_key = chosen
            AND one.status >= 'arrived' AND one.status <= 'arrived' LIMIT 1;
        IF FOUND THEN
            RETURN;
        END IF;
    END IF;
    -- What may not be seen yet keeps what is behind it.
    leaving := least(at_most, line.waiting, array_position(line.hidden, TRUE) - 1);
    following := leaving + 1;
    UPDATE {schema}.known_groups AS known SET
        ready_rank = CASE WHEN line.hidden[following] THEN NULL ELSE line.ranks[following] END,
        due_at = CASE WHEN line.hidden[following] AND line.visible[following] < 'infinity'
            THEN least(known.due_at, (extract(epoch FROM line.visible[following]) * 1000000)::bigint)
            ELSE known.due_at END,
        touched_at = now()
    WHERE known.queue_id = of_queue AND known.group_key = chosen
    RETURNING known.incarnation INTO of_incarnation;
    RETURN QUERY
    SELECT
        around.version, current_setting('transaction_isolation'), chosen, of_incarnation,
        entry.entry_id, entry.sequence, entry.ordinal, entry.late,
        stored.message_id, stored.type, stored.content_type, stored.context::text, stored.property_types, stored.body,
        stored.received_at, run.location,
        run.epoch + (run.number - 1 + stored.position) / place.last_number,
        (run.number - 1 + stored.position) % place.last_number + 1,
        entry.attempt, entry.priority::smallint, entry.subscription_ids, stored.parts::integer
    FROM {schema}.entries AS entry
    JOIN {schema}.spool AS stored
        ON stored.arrival_id = ANY (ARRAY[entry.arrival_id]) AND stored.position = ANY (ARRAY[entry.position])
    JOIN {schema}.tickets AS run ON run.arrival_id = ANY (ARRAY[entry.arrival_id])
    JOIN {schema}.locations AS place ON place.location = run.location
    WHERE entry.queue_id = of_queue AND entry.group_key = chosen AND entry.status = 'queued'
        AND entry.ordinal <= line.ordinals[leaving]
    ORDER BY entry.ordinal;
END
$function$;

-- Write down what a turn decided, and give the messages that it hands out. The first arrays: a value for each of its
-- groups; then the entries that stay (held, or released and not handed out), those that are set aside, and the requests
-- that it has obeyed. All groups are locked by the caller.
-- Entries are joined to the ids by `= ANY (ARRAY[…])`, here and elsewhere: that can only mean to look them up. By `=` the
-- planner may read an index from end to end for its order, and does where a vacuum has found the table empty; and it is
-- full of what is done, until the next one. All columns are asked for so: by a position alone it would find every message,
-- and does with a plan that was made when there were few.
CREATE FUNCTION {schema}.decide(
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
    INSERT INTO {schema}.known_groups AS known (
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
        WHERE entry.entry_id = ANY (ARRAY[kept.entry_id]);
    END IF;
    IF cardinality(aside_ids) > 0 THEN
        WITH gone AS (
            DELETE FROM {schema}.entries AS entry
            USING unnest(aside_ids, aside_dispositions, aside_reasons, aside_ordinals)
                AS judged (entry_id, disposition, reason, ordinal)
            WHERE entry.entry_id = ANY (ARRAY[judged.entry_id])
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

-- What was handed out is done: it goes, or is kept as history. A message with a single destination goes with it; of one
-- with more, nobody who completes can tell whether he is the last, so that is left to the clean-up.
CREATE FUNCTION {schema}.complete(
    of_queue integer, entry_ids bigint[], ordinals bigint[], lates boolean[], of_incarnation integer, keep text
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $function$
DECLARE
    arrivals bigint[];
    positions bigint[];
    alone bigint;
BEGIN
    PERFORM {schema}.permit_entries(of_queue, entry_ids);
    IF keep = 'nothing' THEN
        WITH done AS (
            DELETE FROM {schema}.entries WHERE entry_id = ANY (entry_ids) RETURNING arrival_id, position
        ), alone AS (
            DELETE FROM {schema}.spool AS stored USING done
            WHERE stored.arrival_id = ANY (ARRAY[done.arrival_id]) AND stored.position = ANY (ARRAY[done.position])
                AND stored.destinations = 1
            RETURNING stored.position
        )
        SELECT array_agg(done.arrival_id), array_agg(done.position), (SELECT count(*) FROM alone)
        INTO arrivals, positions, alone FROM done;
    ELSIF keep = 'everything' THEN
        WITH done AS (
            DELETE FROM {schema}.entries AS entry USING unnest(entry_ids, ordinals, lates)
                AS handed (entry_id, ordinal, late)
            WHERE entry.entry_id = ANY (ARRAY[handed.entry_id])
            RETURNING entry.*, handed.ordinal AS handed_ordinal, handed.late AS handed_late
        )
        INSERT INTO {schema}.history (
            entry_id, queue_id, group_key, incarnation, ordinal, late, arrival_id, position, sequence,
            subscription_ids, attempt
        )
        SELECT
            entry_id, queue_id, group_key, of_incarnation, handed_ordinal, handed_late, arrival_id, position, sequence,
            subscription_ids, attempt
        FROM done;
    ELSE
        WITH done AS (
            DELETE FROM {schema}.entries AS entry USING unnest(entry_ids, ordinals, lates)
                AS handed (entry_id, ordinal, late)
            WHERE entry.entry_id = ANY (ARRAY[handed.entry_id])
            RETURNING entry.*, handed.ordinal AS handed_ordinal, handed.late AS handed_late
        ), kept AS (
            INSERT INTO {schema}.history (
                entry_id, queue_id, group_key, incarnation, ordinal, late, arrival_id, position, sequence,
                subscription_ids, attempt
            )
            SELECT
                entry_id, queue_id, group_key, of_incarnation, handed_ordinal, handed_late, arrival_id, position,
                sequence, subscription_ids, attempt
            FROM done WHERE attempt > 0
        ), alone AS (
            DELETE FROM {schema}.spool AS stored USING done
            WHERE stored.arrival_id = ANY (ARRAY[done.arrival_id]) AND stored.position = ANY (ARRAY[done.position])
                AND stored.destinations = 1 AND done.attempt = 0
            RETURNING stored.position
        )
        SELECT array_agg(done.arrival_id), array_agg(done.position), (SELECT count(*) FROM alone)
        INTO arrivals, positions, alone FROM done WHERE attempt = 0;
    END IF;
    IF cardinality(arrivals) > alone THEN
        INSERT INTO {schema}.dropped (arrival_id, position)
        SELECT arrival_id, position FROM unnest(arrivals, positions) AS done (arrival_id, position)
        WHERE EXISTS (
            SELECT FROM {schema}.spool AS stored
            WHERE stored.arrival_id = ANY (ARRAY[done.arrival_id]) AND stored.position = ANY (ARRAY[done.position])
        );
    END IF;
END
$function$;

-- As `complete`, for one message of a queue that keeps nothing: without arrays.
CREATE FUNCTION {schema}.complete_one(of_queue integer, of_entry bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    gone record;
BEGIN
    IF NOT {schema}.is_owner() THEN
        PERFORM {schema}.permit_entries(of_queue, ARRAY[of_entry]);
    END IF;
    DELETE FROM {schema}.entries WHERE entry_id = of_entry RETURNING arrival_id, position INTO gone;
    DELETE FROM {schema}.spool AS stored
    WHERE stored.arrival_id = gone.arrival_id AND stored.position = gone.position AND stored.destinations = 1;
    IF NOT FOUND THEN
        INSERT INTO {schema}.dropped (arrival_id, position)
        SELECT stored.arrival_id, stored.position FROM {schema}.spool AS stored
        WHERE stored.arrival_id = gone.arrival_id AND stored.position = gone.position;
    END IF;
END
$function$;

-- Does what was handed out of a group stand still? Not where that was rolled back, with the transaction or to a savepoint:
-- then the group's ordinal is what it was before, or somebody else has the group.
CREATE FUNCTION {schema}.is_in_hand(of_queue integer, of_group text, entry_ids bigint[], ordinals bigint[]) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    PERFORM {schema}.permit_entries(of_queue, entry_ids);
    RETURN of_group IS NULL OR pg_try_advisory_xact_lock({schema}.group_lock(of_queue, of_group)) AND EXISTS (
        SELECT FROM {schema}.known_groups AS known
        WHERE known.queue_id = of_queue AND known.group_key = of_group
            AND known.ordinal >= (SELECT coalesce(max(ordinal), 0) FROM unnest(ordinals) AS ordinal)
    );
END
$function$;

-- What was handed out was not worked on: it is queued again, and its group is ready; unless that was rolled back already.
CREATE FUNCTION {schema}.put_back(
    of_queue integer, of_group text, entry_ids bigint[], ordinals bigint[], lates boolean[]
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
    IF NOT {schema}.is_in_hand(of_queue, of_group, entry_ids, ordinals) THEN
        RETURN;
    END IF;
    UPDATE {schema}.entries AS entry SET status = 'queued', ordinal = handed.ordinal, late = handed.late
    FROM unnest(entry_ids, ordinals, lates) AS handed (entry_id, ordinal, late)
    WHERE entry.entry_id = ANY (ARRAY[handed.entry_id]);
    -- Where the turn was lost, somebody else may have done all of it meanwhile.
    UPDATE {schema}.known_groups AS known
    SET ready_rank = coalesce((SELECT min(rank) FROM {schema}.entries WHERE entry_id = ANY (entry_ids)), known.ready_rank)
    WHERE known.queue_id = of_queue AND known.group_key = of_group;
END
$function$;

-- Claims of workers whose handlers take long. What is in one is queued again at once, in the same commit, and nobody
-- else gets it while the row is there: so a lease that is taken away, however, has left everything in its place.
CREATE SEQUENCE {schema}.fences;

-- `token`: the fencing token, higher with every lease. `group_key`: NULL where the queue has no groups; else one lease at
-- a time. `entry_ids`: what isn't done, in order. `expires_at`: unless its worker puts it off before.
CREATE TABLE {schema}.leases (
    token bigint PRIMARY KEY DEFAULT nextval('{schema}.fences'),
    queue_id integer NOT NULL,
    group_key text COLLATE "C",
    entry_ids bigint[] NOT NULL CHECK (cardinality(entry_ids) > 0),
    worker text NOT NULL,
    claimed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz NOT NULL,
    UNIQUE (queue_id, group_key)
) WITH (fillfactor = 50);

-- Does a worker have this group in a lease, even one that has run out? Whoever counts its attempt takes that away.
CREATE FUNCTION {schema}.is_leased(of_queue integer, of_group text) RETURNS boolean
LANGUAGE plpgsql VOLATILE
AS $function$
BEGIN
    RETURN EXISTS (SELECT FROM {schema}.leases WHERE queue_id = of_queue AND group_key = of_group);
END
$function$;

-- Lock many groups of a queue that have something to do, at most `how_many`: those of lowest rank first, as far as a look
-- at so many entries tells. What somebody else has is left out. Nobody but operators competes with a pipeline for its
-- groups, so none is looked at again under its lock: a turn that finds nothing does nothing.
CREATE FUNCTION {schema}.lock_many(of_queue integer, how_many integer, now_us bigint) RETURNS text[]
LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_bitmapscan = off
SET plan_cache_mode = force_generic_plan
AS $function$
DECLARE
    candidates text[];
    taken text[];
BEGIN
    SELECT array_agg(group_key) INTO candidates FROM (
        SELECT group_key FROM (
            (
                SELECT group_key, ready_rank AS rank FROM {schema}.known_groups
                WHERE queue_id = of_queue AND ready_rank IS NOT NULL ORDER BY ready_rank LIMIT how_many
            ) UNION ALL (
                SELECT group_key, rank FROM {schema}.entries
                WHERE queue_id = of_queue AND status = 'arrived' ORDER BY rank LIMIT 20 * how_many
            ) UNION ALL (
                SELECT group_key, due_at FROM {schema}.known_groups
                WHERE queue_id = of_queue AND due_at <= now_us ORDER BY due_at LIMIT how_many
            ) UNION ALL (
                SELECT group_key, rank FROM {schema}.requests WHERE queue_id = of_queue LIMIT how_many
            )
        ) AS one GROUP BY group_key ORDER BY min(rank) LIMIT how_many
    ) AS first;
    SELECT array_agg(group_key) INTO taken FROM unnest(candidates) AS wanted (group_key)
    WHERE pg_try_advisory_xact_lock({schema}.group_lock(of_queue, group_key));
    -- What workers have in leases is theirs.
    taken := ARRAY(
        SELECT group_key FROM unnest(taken) AS mine (group_key) WHERE NOT {schema}.is_leased(of_queue, group_key)
    );
    -- Whoever wanted a group to be looked at committed before; the turn reads after this.
    DELETE FROM {schema}.requests WHERE queue_id = of_queue AND group_key = ANY (taken) AND action = 'look';
    RETURN coalesce(taken, ARRAY[]::text[]);
END
$function$;

-- Lock the next groups of a queue that have something to do, or the named one. `unrouted`: something that was published
-- through SQL waits to be routed; `settled`, `unsettled`: where to look for that. `many`: more messages wait to be judged
-- than a turn of one group is worth.
CREATE FUNCTION {schema}.lock_groups(
    of_queue integer, named text, how_many integer, at_us bigint, from_rank bigint, settled xid8, unsettled xid8[],
    OUT group_keys text[], OUT now_us bigint, OUT isolation text, OUT version bigint, OUT unrouted boolean,
    OUT many boolean
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    now_us := coalesce(at_us, {schema}.now_us());
    isolation := current_setting('transaction_isolation');
    group_keys := CASE
        WHEN named IS NULL THEN {schema}.lock_next(of_queue, how_many, now_us, from_rank)
        WHEN {schema}.lock_group(of_queue, named, now_us) THEN ARRAY[named]
        ELSE ARRAY[]::text[]
    END;
    SELECT
        (SELECT max(change.version) FROM {schema}.changes AS change),
        {schema}.is_left(settled, unsettled),
        named IS NULL AND EXISTS (
            SELECT FROM {schema}.entries AS entry
            WHERE entry.queue_id = of_queue AND entry.status = 'arrived' AND entry.rank >= from_rank
            ORDER BY entry.rank OFFSET 40
        )
    INTO version, unrouted, many;
END
$function$;

-- Lock the next groups of a queue that have something to do, to judge them before they are asked for; none if somebody
-- does that already. What is judged could be judged again: nobody has to wait until it is on disk.
CREATE FUNCTION {schema}.lock_ahead(
    of_queue integer, how_many integer, at_us bigint, from_rank bigint,
    OUT group_keys text[], OUT now_us bigint, OUT isolation text, OUT version bigint
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    PERFORM set_config('synchronous_commit', 'off', TRUE);
    now_us := coalesce(at_us, {schema}.now_us());
    isolation := current_setting('transaction_isolation');
    version := (SELECT max(change.version) FROM {schema}.changes AS change);
    group_keys := CASE
        WHEN pg_try_advisory_xact_lock(hashtextextended('seriatim judging ' || of_queue, '{schema}'::regnamespace::oid::bigint))
        THEN {schema}.lock_next(of_queue, how_many, now_us, from_rank)
        ELSE ARRAY[]::text[]
    END;
END
$function$;

-- Lock groups of a queue that have a timer which is due, or a message that may be seen from now on.
CREATE FUNCTION {schema}.lock_due(
    of_queue integer, how_many integer, at_us bigint,
    OUT group_keys text[], OUT now_us bigint, OUT isolation text, OUT version bigint
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $function$
DECLARE
    candidate text;
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    now_us := coalesce(at_us, {schema}.now_us());
    isolation := current_setting('transaction_isolation');
    version := (SELECT max(change.version) FROM {schema}.changes AS change);
    group_keys := ARRAY[]::text[];
    FOR candidate IN
        SELECT known.group_key FROM {schema}.known_groups AS known
        WHERE known.queue_id = of_queue AND known.due_at <= now_us ORDER BY known.due_at
    LOOP
        EXIT WHEN cardinality(group_keys) >= how_many;
        IF {schema}.lock_group(of_queue, candidate, now_us) THEN
            group_keys := group_keys || candidate;
        END IF;
    END LOOP;
END
$function$;

-- What is remembered of the groups of a turn. The caller has locked them: what this reads is younger than the lock.
CREATE FUNCTION {schema}.turn_groups(of_queue integer, of_groups text[])
RETURNS TABLE (
    group_key text, incarnation integer, state bigint[], skipped bigint[], arrivals bigint, decided bigint[]
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $function$
#variable_conflict use_column
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    RETURN QUERY
    SELECT
        group_key, incarnation, ARRAY[flags, first, next, mark, last, ordinal, since, reports, clock], skipped,
        arrivals, decided
    FROM {schema}.known_groups
    WHERE queue_id = of_queue AND group_key = ANY (of_groups);
END
$function$;

-- The entries of a turn's groups, as columns: all that arrived (code 0), in order of commit; all that are held (1), in
-- order of arrival; and the first that are queued (2), by ordinal. The caller has locked the groups.
-- `unrouted`: something that was published through SQL waits to be routed. What was committed after that stays out:
-- whoever sees it sees that, too, for it is one statement. `settled`, `unsettled`: where to look for that.
CREATE FUNCTION {schema}.turn_entries(
    of_queue integer, of_groups text[], at_most integer, settled xid8 DEFAULT '0', unsettled xid8[] DEFAULT '{{}}'
)
RETURNS TABLE (
    places bigint[], codes integer[], entry_ids bigint[], sequences bigint[], sizes bigint[], ranks bigint[],
    visible bigint[], arrivals bigint[], ordinals bigint[], late boolean[], waits boolean[], unrouted boolean
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $function$
#variable_conflict use_column
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    RETURN QUERY
    SELECT
        array_agg(place) AS places,
        array_agg(code) AS codes,
        array_agg(entry_id) AS entry_ids,
        array_agg(sequence) AS sequences,
        array_agg(size) AS sizes,
        array_agg(rank) AS ranks,
        array_agg(CASE
            WHEN subscription_ids <> '{{}}' AND subscription_ids <@ (
                SELECT array_agg(subscription_id) FROM {schema}.known_subscriptions
                WHERE queue_id = of_queue AND state <> 'started'
            ) THEN 9223372036854775807
            ELSE (extract(epoch FROM visible_at) * 1000000)::bigint END) AS visible,
        array_agg(arrival) AS arrivals,
        array_agg(ordinal) AS ordinals,
        array_agg(late) AS late,
        array_agg(waits) AS waits,
        {schema}.is_left(settled, unsettled) AS unrouted
    FROM (
        SELECT
            array_position(of_groups, entry.group_key)::bigint - 1 AS place, 0 AS code, entry.*,
            run.stamp AS first_by, entry.position AS then_by
        FROM {schema}.entries AS entry JOIN {schema}.tickets AS run ON run.arrival_id = ANY (ARRAY[entry.arrival_id])
        WHERE entry.queue_id = of_queue AND entry.group_key = ANY (of_groups)
            AND entry.status >= 'arrived' AND entry.status <= 'arrived'
            AND run.stamp < CASE
                WHEN {schema}.is_left(settled, unsettled)
                    THEN (SELECT min(stamp) FROM {schema}.to_route)
                ELSE 9223372036854775807 END
        UNION ALL
        SELECT
            array_position(of_groups, entry.group_key)::bigint - 1, 1, entry.*, entry.arrival, 0
        FROM {schema}.entries AS entry
        WHERE entry.queue_id = of_queue AND entry.group_key = ANY (of_groups) AND entry.status = 'held'
        UNION ALL
        SELECT wanted.place - 1, 2, entry.*, entry.ordinal, 0
        FROM unnest(of_groups) WITH ORDINALITY AS wanted (group_key, place)
        CROSS JOIN LATERAL (
            SELECT * FROM {schema}.entries
            WHERE queue_id = of_queue AND group_key = wanted.group_key AND status = 'queued'
            ORDER BY ordinal LIMIT at_most
        ) AS entry
        ORDER BY place, code, first_by, then_by
    ) AS found;
END
$function$;

-- What operators asked of the groups of a turn while they were locked, in order. The caller has locked the groups.
CREATE FUNCTION {schema}.turn_requests(of_queue integer, of_groups text[])
RETURNS TABLE (place integer, request_id bigint, action text)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    RETURN QUERY
    SELECT array_position(of_groups, group_key) - 1 AS place, request_id, action
    FROM {schema}.requests
    WHERE queue_id = of_queue AND group_key = ANY (of_groups) AND action <> 'look'
    ORDER BY request_id;
END
$function$;

-- The messages of entries that are handed out, in their order. The caller has locked their group.
CREATE FUNCTION {schema}.handed(of_queue integer, of_entries bigint[])
RETURNS TABLE (
    message_id text, type text, content_type text, context text, property_types jsonb, body bytea,
    received_at timestamptz, location text, epoch bigint, number bigint, attempt integer, priority smallint,
    subscription_ids integer[], parts integer
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $function$
#variable_conflict use_column
BEGIN
    PERFORM {schema}.permit_entries(of_queue, of_entries);
    RETURN QUERY
    SELECT
        stored.message_id,
        stored.type,
        stored.content_type,
        stored.context::text,
        stored.property_types,
        stored.body,
        stored.received_at,
        run.location,
        run.epoch + (run.number - 1 + stored.position) / place.last_number AS epoch,
        (run.number - 1 + stored.position) % place.last_number + 1 AS number,
        entry.attempt,
        entry.priority::smallint,
        entry.subscription_ids,
        stored.parts::integer
    FROM unnest(of_entries) WITH ORDINALITY AS handed (entry_id, at)
    JOIN {schema}.entries AS entry ON entry.entry_id = ANY (ARRAY[handed.entry_id])
    JOIN {schema}.spool AS stored
        ON stored.arrival_id = ANY (ARRAY[entry.arrival_id]) AND stored.position = ANY (ARRAY[entry.position])
    JOIN {schema}.tickets AS run ON run.arrival_id = ANY (ARRAY[entry.arrival_id])
    JOIN {schema}.locations AS place ON place.location = run.location
    ORDER BY handed.at;
END
$function$;

-- The next messages of a queue without order, of lowest rank first, each locked; those that others have are passed over.
-- `from_rank`: see `head_of`.
CREATE FUNCTION {schema}.take_unordered(of_queue integer, at_most integer, from_rank bigint)
RETURNS TABLE (
    version bigint, entry_id bigint, message_id text, type text, content_type text, context text,
    property_types jsonb, body bytea, received_at timestamptz, location text, epoch bigint, number bigint,
    attempt integer, priority smallint, subscription_ids integer[], parts integer
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $function$
#variable_conflict use_column
DECLARE
    least_rank bigint := from_rank;
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    LOOP
        RETURN QUERY
        SELECT
            (SELECT max(version) FROM {schema}.changes) AS version,
            entry.entry_id,
            stored.message_id,
            stored.type,
            stored.content_type,
            stored.context::text,
            stored.property_types,
            stored.body,
            stored.received_at,
            run.location,
            run.epoch + (run.number - 1 + stored.position) / place.last_number AS epoch,
            (run.number - 1 + stored.position) % place.last_number + 1 AS number,
            entry.attempt,
            entry.priority::smallint,
            entry.subscription_ids,
            stored.parts::integer
        FROM (
            SELECT * FROM {schema}.entries
            WHERE queue_id = of_queue AND status = 'arrived' AND rank >= least_rank
                AND (visible_at IS NULL OR visible_at <= clock_timestamp())
                AND (subscription_ids <> '{{}}' AND subscription_ids <@ (
                    SELECT array_agg(subscription_id) FROM {schema}.known_subscriptions
                    WHERE queue_id = of_queue AND state <> 'started'
                )) IS NOT TRUE
            ORDER BY rank LIMIT at_most
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS entry
        JOIN {schema}.spool AS stored
            ON stored.arrival_id = ANY (ARRAY[entry.arrival_id]) AND stored.position = ANY (ARRAY[entry.position])
        JOIN {schema}.tickets AS run ON run.arrival_id = ANY (ARRAY[entry.arrival_id])
        JOIN {schema}.locations AS place ON place.location = run.location
        ORDER BY entry.rank, entry.entry_id;
        EXIT WHEN FOUND OR least_rank = -9223372036854775808;
        least_rank := -9223372036854775808;
    END LOOP;
END
$function$;
