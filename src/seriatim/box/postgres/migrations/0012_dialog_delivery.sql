-- How messages of dialogs reach their service: what goes ahead, what is due, what can't be delivered yet, poison.

-- Is a timer due, or a lifetime over?
CREATE FUNCTION {schema}.is_due() RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan
AS $function$
BEGIN
    PERFORM {schema}.permit_anything();
    RETURN EXISTS (SELECT FROM {schema}.endpoints AS known WHERE known.due_at <= clock_timestamp());
END
$function$;

-- Fire the timers that are due, and end what has outlived its lifetime; what somebody has in his hands is passed over.
-- Answers with how many dialogs something was done to, and with the entries that are set aside.
CREATE FUNCTION {schema}.fire_dialogs(at_most integer, OUT done integer, OUT set_aside bigint[])
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    one record;
    side record;
    sides uuid[];
    free boolean;
BEGIN
    done := 0;
    set_aside := '{{}}';
    PERFORM {schema}.permit_anything();
    FOR one IN
        SELECT known.handle, known.conversation_id, known.state, known.timer_at, known.expires_at
        FROM {schema}.endpoints AS known
        WHERE known.due_at <= clock_timestamp() ORDER BY known.due_at LIMIT at_most FOR NO KEY UPDATE SKIP LOCKED
    LOOP
        -- The other side of it may have been the first.
        CONTINUE WHEN NOT EXISTS (
            SELECT FROM {schema}.endpoints AS known
            WHERE known.handle = one.handle AND known.due_at <= clock_timestamp()
        );
        IF one.expires_at <= clock_timestamp() THEN
            sides := ARRAY(
                SELECT known.handle FROM {schema}.endpoints AS known
                WHERE known.conversation_id = one.conversation_id ORDER BY known.handle FOR UPDATE SKIP LOCKED
            );
            SELECT bool_and(
                known.handle = ANY (sides)
                AND pg_try_advisory_xact_lock({schema}.group_lock(known.queue_id, known.group_id::text))
            ) INTO free
            FROM {schema}.endpoints AS known WHERE known.conversation_id = one.conversation_id;
            CONTINUE WHEN NOT free;
            DELETE FROM {schema}.transmission AS waiting WHERE waiting.handle = ANY (sides);
            FOR side IN
                SELECT known.handle FROM {schema}.endpoints AS known WHERE known.handle = ANY (sides)
            LOOP
                set_aside := set_aside || {schema}.drop_unread(
                    side.handle, ARRAY[]::text[], 'the lifetime of its dialog has ended'
                );
                PERFORM {schema}.happen(
                    side.handle, 'lifetime ends', NULL, -1, 'the lifetime of the dialog has ended'
                );
            END LOOP;
            done := done + 1;
        ELSE
            UPDATE {schema}.endpoints AS known SET timer_at = NULL WHERE known.handle = one.handle;
            PERFORM {schema}.happen(one.handle, 'timer fires');
            done := done + 1;
        END IF;
    END LOOP;
END
$function$;

-- Put what goes ahead, of the groups of a turn, before what is queued there: it gets the first ordinals that haven't
-- left yet, and the others move up. The caller has locked the groups. `fresh`: the state of a group that is new.
CREATE FUNCTION {schema}.place_ahead(of_queue integer, of_groups text[], fresh bigint[]) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $function$
#variable_conflict use_column
DECLARE
    one record;
    lowest bigint;
    counted record;
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    FOR one IN
        SELECT entry.group_key, array_agg(entry.entry_id ORDER BY run.stamp, entry.position) AS ids, count(*) AS messages
        FROM {schema}.entries AS entry JOIN {schema}.tickets AS run ON run.arrival_id = ANY (ARRAY[entry.arrival_id])
        WHERE entry.queue_id = of_queue AND entry.group_key = ANY (of_groups)
            AND entry.status >= 'arrived' AND entry.status <= 'arrived' AND entry.ahead
        GROUP BY entry.group_key
    LOOP
        -- Where a group is closed a message is late, as any other.
        CONTINUE WHEN EXISTS (
            SELECT FROM {schema}.known_groups AS known
            WHERE known.queue_id = of_queue AND known.group_key = one.group_key AND known.flags & 2 <> 0
        );
        INSERT INTO {schema}.known_groups (
            queue_id, group_key, flags, first, next, mark, last, ordinal, since, reports, clock, skipped, arrivals
        ) VALUES (
            of_queue, one.group_key, fresh[1], fresh[2], fresh[3], fresh[4], fresh[5], fresh[6], fresh[7], fresh[8],
            fresh[9], '{{}}', 0
        ) ON CONFLICT DO NOTHING;
        UPDATE {schema}.known_groups AS known SET
            ordinal = known.ordinal + one.messages, arrivals = known.arrivals + one.messages,
            decided[1] = known.decided[1] + one.messages
        WHERE known.queue_id = of_queue AND known.group_key = one.group_key
        RETURNING known.ordinal, known.arrivals INTO counted;
        UPDATE {schema}.entries AS entry SET ordinal = entry.ordinal + one.messages
        WHERE entry.queue_id = of_queue AND entry.group_key = one.group_key AND entry.status = 'queued';
        SELECT min(entry.ordinal) INTO lowest FROM {schema}.entries AS entry
        WHERE entry.queue_id = of_queue AND entry.group_key = one.group_key AND entry.status = 'queued';
        UPDATE {schema}.entries AS entry SET
            status = 'queued', ahead = FALSE, arrival = counted.arrivals - one.messages + placed.nth,
            ordinal = coalesce(lowest, counted.ordinal + 1) - one.messages - 1 + placed.nth
        FROM unnest(one.ids) WITH ORDINALITY AS placed (entry_id, nth)
        WHERE entry.entry_id = ANY (ARRAY[placed.entry_id]);
    END LOOP;
    RETURN of_queue;
END
$function$;

-- Bring what is queued for a side before what is queued for others of its group. Answers with how much that is. The
-- caller has the lock of the group, and all of it is judged.
CREATE FUNCTION {schema}.put_first(of_handle uuid) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    own record;
    found bigint;
BEGIN
    SELECT known.queue_id, known.group_id INTO own FROM {schema}.endpoints AS known WHERE known.handle = of_handle;
    PERFORM {schema}.permit('receive', ARRAY[coalesce(own.queue_id, 0)]);
    WITH line AS (
        SELECT entry.entry_id, entry.ordinal, stored.context -> 'dialog' ->> 'handle' = of_handle::text AS mine
        FROM {schema}.entries AS entry
        JOIN {schema}.spool AS stored
            ON stored.arrival_id = ANY (ARRAY[entry.arrival_id]) AND stored.position = ANY (ARRAY[entry.position])
        WHERE entry.queue_id = own.queue_id AND entry.group_key = own.group_id::text AND entry.status = 'queued'
    ), ordered AS (
        SELECT
            line.entry_id, line.ordinal, line.mine, first.ordinal AS becomes
        FROM (
            SELECT entry_id, ordinal, mine IS TRUE AS mine,
                row_number() OVER (ORDER BY (mine IS TRUE) DESC, ordinal) AS place FROM line
        ) AS line
        JOIN (SELECT ordinal, row_number() OVER (ORDER BY ordinal) AS place FROM line) AS first USING (place)
    ), moved AS (
        UPDATE {schema}.entries AS entry SET ordinal = ordered.becomes FROM ordered
        WHERE entry.entry_id = ANY (ARRAY[ordered.entry_id]) AND ordered.becomes <> ordered.ordinal
    )
    SELECT count(*) FILTER (WHERE ordered.mine) INTO found FROM ordered;
    RETURN found;
END
$function$;

-- As `transmit_into`, of all queues.
CREATE FUNCTION {schema}.transmit() RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM {schema}.permit('route', ARRAY[]::integer[]);
    RETURN {schema}.transmit_into(NULL);
END
$function$;

-- Forget sides that have been closed for so long, and what is remembered of conversation groups that have none any more.
-- Answers with how many sides.
CREATE FUNCTION {schema}.forget_closed(older_than interval) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    forgotten bigint;
BEGIN
    PERFORM {schema}.permit('route', ARRAY[]::integer[]);
    WITH gone AS (
        DELETE FROM {schema}.endpoints WHERE closed_at <= clock_timestamp() - older_than
        RETURNING handle, queue_id, group_id
    ), uncounted AS (
        DELETE FROM {schema}.rollbacks AS known USING gone
        WHERE known.queue_id = gone.queue_id AND known.group_key = gone.group_id::text
    ), unwritten AS (
        DELETE FROM {schema}.writer_dialogs AS known USING gone, {schema}.writers AS writing
        WHERE known.handle = gone.handle AND writing.writer = known.writer AND known.batch <= writing.batch
    ), emptied AS (
        DELETE FROM {schema}.known_groups AS known USING (SELECT DISTINCT queue_id, group_id FROM gone) AS one
        WHERE known.queue_id = one.queue_id AND known.group_key = one.group_id::text
            AND NOT EXISTS (
                SELECT FROM {schema}.endpoints AS other
                WHERE other.queue_id = one.queue_id AND other.group_id = one.group_id
                    AND other.handle NOT IN (SELECT handle FROM gone)
            )
            AND NOT EXISTS (
                SELECT FROM {schema}.entries AS entry
                WHERE entry.queue_id = one.queue_id AND entry.group_key = one.group_id::text
            )
            AND pg_try_advisory_xact_lock({schema}.group_lock(one.queue_id, one.group_id::text))
    )
    SELECT count(*) INTO forgotten FROM gone;
    RETURN forgotten;
END
$function$;

-- Of a group of a service's queue: which message was rolled back last, how often in a row, and by which transaction last
-- (the 32 bits that a row says): none counts twice. Written in transactions apart, or it would be rolled back, too.
CREATE TABLE {schema}.rollbacks (
    queue_id integer NOT NULL REFERENCES {schema}.queues ON DELETE CASCADE,
    group_key text COLLATE "C" NOT NULL,
    entry_id bigint NOT NULL,
    times integer NOT NULL,
    last_by bigint NOT NULL,
    PRIMARY KEY (queue_id, group_key)
);

-- Leave a mark on the first message of a delivery, and see whether there is one: who locks a row stays written in it,
-- whatever becomes of his transaction. Answers with the transaction that left the mark, if it was rolled back and none
-- counts it already. `locker`: who stands in the row. The caller has the lock of the group.
CREATE FUNCTION {schema}.mark_entry(of_queue integer, of_group text, of_entry bigint, locker bigint) RETURNS bigint
LANGUAGE plpgsql
AS $function$
DECLARE
    own bigint := pg_current_xact_id()::text::bigint & 4294967295;
    following bigint;
    whole bigint;
BEGIN
    PERFORM FROM {schema}.entries AS entry WHERE entry.entry_id = of_entry FOR UPDATE SKIP LOCKED;
    IF locker IN (0, own) THEN
        RETURN NULL;
    END IF;
    following := pg_snapshot_xmax(pg_current_snapshot())::text::bigint;
    -- A row keeps the lower half of a transaction's number.
    whole := following - ((following - locker) & 4294967295);
    IF whole BETWEEN 3 AND following - 1 AND pg_xact_status(whole::text::xid8) = 'aborted' AND NOT EXISTS (
        SELECT FROM {schema}.rollbacks AS known
        WHERE known.queue_id = of_queue AND known.group_key = of_group AND known.last_by = locker
    ) THEN
        RETURN locker;
    END IF;
    RETURN NULL;
END
$function$;

-- As `mark_entry`, for what a turn hands out. `begun`: dialogs of which it is the first message.
CREATE FUNCTION {schema}.take_in_hand(of_queue integer, of_group text, of_entry bigint, begun uuid[]) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $function$
BEGIN
    PERFORM {schema}.permit_entries(of_queue, ARRAY[of_entry]);
    IF cardinality(begun) > 0 THEN
        PERFORM {schema}.converse(begun);
    END IF;
    RETURN {schema}.mark_entry(of_queue, of_group, of_entry, (
        SELECT entry.xmax::text::bigint FROM {schema}.entries AS entry WHERE entry.entry_id = of_entry
    ));
END
$function$;

-- Hand out the next messages of a queue that is first in, first out, as one of a service is: of the group that has waited
-- longest, what is queued and then what has arrived, in order of commit, and lock that group. What has arrived leaves as
-- it is, so no rule has to be asked as long as nothing stops the group, goes ahead, or may not be seen yet. Where one of
-- these is so, an operator has asked something, a timer is due, the definitions have changed, or so much has arrived that
-- it is cheaper judged at once, there is no row: then it is a turn's turn. The caller knows, as of `known_version`, that
-- all subscriptions of the queue are started. `fresh`: the state of a group that is new. `serves`: the queue is a
-- service's; dialogs of which it is the first message converse from here on. `marks`: count rollbacks, see `take_in_hand`.
-- `from_rank`: see `head_of`. `settled`, `unsettled`: where to look for what was published through SQL.
CREATE FUNCTION {schema}.hand_out_fifo(
    of_queue integer, named text, at_most integer, at_us bigint, known_version bigint, fresh bigint[], serves boolean,
    marks boolean, from_rank bigint, settled xid8, unsettled xid8[]
)
RETURNS TABLE (
    version bigint, isolation text, group_key text, incarnation integer, entry_id bigint, sequence bigint,
    ordinal bigint, late boolean, message_id text, type text, content_type text, context text, property_types jsonb,
    body bytea, received_at timestamptz, location text, epoch bigint, number bigint, attempt integer,
    priority smallint, subscription_ids integer[], parts integer, rolled_back bigint, own bigint
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_sort = off
AS $function$
DECLARE
    moment_us bigint := coalesce(at_us, {schema}.now_us());
    -- More than that is judged at once, and read again each time until it is.
    most bigint := 2 * at_most::bigint + 20;
    candidate text := named;
    least_rank bigint := from_rank;
    tried text[] := ARRAY[]::text[];
    around record;
    alone boolean := FALSE;
    of_group text;
    line record;
    known record;
    released bigint;
    following bigint;
    mark bigint;
BEGIN
    IF NOT {schema}.is_owner() THEN
        PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RETURN;
    END IF;
    IF serves THEN -- by itself, for what has a query in it is run as one, whatever is to the left of that
        IF EXISTS (SELECT FROM {schema}.endpoints AS side WHERE side.due_at <= clock_timestamp()) THEN
            RETURN;
        END IF;
    END IF;
    LOOP
        -- A group that isn't handed out of is not locked: the block takes the lock back.
        BEGIN
            IF named IS NOT NULL THEN
                EXIT WHEN NOT pg_try_advisory_xact_lock({schema}.group_lock(of_queue, named));
            ELSE
                -- The locks of as many groups are asked for as somebody else has, and one more.
                SELECT next.group_key INTO candidate
                FROM (
                    (
                        SELECT one.group_key, one.ready_rank AS rank FROM {schema}.known_groups AS one
                        WHERE one.queue_id = of_queue AND one.ready_rank >= least_rank AND one.group_key <> ALL (tried)
                        ORDER BY one.ready_rank
                    ) UNION ALL (
                        SELECT one.group_key, one.rank FROM {schema}.entries AS one
                        WHERE one.queue_id = of_queue AND one.status = 'arrived' AND one.rank >= least_rank
                            AND one.group_key <> ALL (tried)
                        ORDER BY one.rank
                    )
                    -- The offset keeps what locks out of this.
                    ORDER BY rank OFFSET 0
                ) AS next
                WHERE pg_try_advisory_xact_lock({schema}.group_lock(of_queue, next.group_key))
                LIMIT 1;
                IF NOT FOUND THEN
                    EXIT WHEN least_rank = -9223372036854775808;
                    least_rank := -9223372036854775808;
                    CONTINUE;
                END IF;
            END IF;
            -- By itself, for it is rare, and what has a query in it is prepared as one, whatever is to the left of that.
            IF cardinality(unsettled) > 0 THEN
                IF EXISTS (SELECT FROM {schema}.to_route WHERE transaction = ANY (unsettled)) THEN
                    RAISE EXCEPTION 'a turn has to look' USING ERRCODE = 'SQ002';
                END IF;
            END IF;
            -- A statement of its own: its snapshot is younger than the lock. By other definitions the queue may have
            -- another policy.
            SELECT
                -- As in `is_left`.
                (
                    SELECT transaction FROM {schema}.to_route WHERE transaction >= settled
                    ORDER BY transaction LIMIT 1
                ) IS NOT NULL OR EXISTS (
                    SELECT FROM {schema}.known_groups AS one WHERE one.queue_id = of_queue AND one.due_at <= moment_us
                ) OR EXISTS (
                    SELECT FROM {schema}.requests AS request WHERE request.queue_id = of_queue
                ) OR EXISTS (
                    SELECT FROM {schema}.leases AS lease
                    WHERE lease.queue_id = of_queue AND lease.group_key = candidate
                ) OR EXISTS (
                    SELECT FROM {schema}.known_groups AS one
                    WHERE one.queue_id = of_queue AND one.group_key = candidate
                        AND (one.flags > 1 OR one.due_at IS NOT NULL)
                ) OR known_version <> (
                    SELECT change.version FROM {schema}.changes AS change ORDER BY change.version DESC LIMIT 1
                ) AS judges,
                EXISTS (
                    SELECT FROM {schema}.entries AS one
                    WHERE one.queue_id = of_queue AND one.group_key = candidate AND one.status = 'queued'
                ) AS queues
            INTO around;
            IF around.judges THEN
                RAISE EXCEPTION 'a turn has to look' USING ERRCODE = 'SQ002';
            END IF;
            -- One message, and none was judged: the first that has arrived is the one, if its place among the others is
            -- known without asking their tickets.
            IF at_most = 1 AND NOT (around.queues OR serves OR marks) THEN
                SELECT
                    entry.entry_id, entry.sequence, entry.late, stored.message_id, stored.type, stored.content_type,
                    stored.context::text, stored.property_types, stored.body, stored.received_at, run.location,
                    run.epoch + (run.number - 1 + stored.position) / place.last_number,
                    (run.number - 1 + stored.position) % place.last_number + 1,
                    entry.attempt, entry.priority, entry.subscription_ids, stored.parts
                INTO
                    entry_id, sequence, late, message_id, type, content_type, context, property_types, body,
                    received_at, location, epoch, number, attempt, priority, subscription_ids, parts
                FROM (
                    SELECT one.* FROM {schema}.entries AS one
                    WHERE one.queue_id = of_queue AND one.group_key = candidate AND one.status = 'arrived'
                    ORDER BY one.ordinal, one.stamp NULLS FIRST, one.position LIMIT 1
                ) AS entry
                -- Looked up, as by the ANY of `decide`, and cheaper for one.
                CROSS JOIN LATERAL (
                    SELECT * FROM {schema}.spool AS one
                    WHERE one.arrival_id = entry.arrival_id AND one.position = entry.position OFFSET 0
                ) AS stored
                CROSS JOIN LATERAL (
                    SELECT * FROM {schema}.tickets AS one WHERE one.arrival_id = entry.arrival_id OFFSET 0
                ) AS run
                JOIN {schema}.locations AS place ON place.location = run.location
                WHERE entry.stamp IS NOT NULL AND entry.visible_at IS NULL;
                alone := FOUND;
            END IF;
            IF alone THEN
                of_group := candidate;
                EXIT;
            END IF;
            SELECT
                count(*) AS waiting, count(one.ordinal) AS queued, array_agg(one.entry_id) AS ids,
                array_agg(one.ordinal) AS ordinals, array_agg(one.rank) AS ranks,
                bool_or(one.ahead OR one.visible_at IS NOT NULL) AS judges
            INTO line
            FROM (
                SELECT entry.* FROM (
                    SELECT queued.*, queued.ordinal AS first_by, 0 AS part FROM (
                        SELECT one.entry_id, one.ordinal, one.rank, one.ahead, one.visible_at, one.position
                        FROM {schema}.entries AS one
                        WHERE one.queue_id = of_queue AND one.group_key = candidate AND one.status = 'queued'
                        ORDER BY one.ordinal LIMIT at_most + 1::bigint
                    ) AS queued
                    UNION ALL
                    SELECT
                        come.entry_id, NULL, come.rank, come.ahead, come.visible_at, come.position, run.stamp, 1
                    FROM (
                        SELECT one.* FROM {schema}.entries AS one
                        -- See `has_work`.
                        WHERE one.queue_id = of_queue AND one.group_key = candidate
                            AND one.status >= 'arrived' AND one.status <= 'arrived'
                        LIMIT most + 1
                    ) AS come
                    -- What the transaction itself has sent is numbered at its commit, and nobody sees it before.
                    JOIN {schema}.tickets AS run ON run.arrival_id = ANY (ARRAY[come.arrival_id])
                ) AS entry
                ORDER BY entry.part, entry.first_by, entry.position
            ) AS one;
            IF line.judges OR line.waiting - line.queued > most THEN
                RAISE EXCEPTION 'a turn has to look' USING ERRCODE = 'SQ002';
            ELSIF line.waiting = 0 THEN
                RAISE EXCEPTION 'nothing to hand out' USING ERRCODE = 'SQ001';
            END IF;
            of_group := candidate;
            EXIT;
        EXCEPTION
            WHEN SQLSTATE 'SQ001' THEN NULL;
            WHEN SQLSTATE 'SQ002' THEN RETURN;
        END;
        EXIT WHEN named IS NOT NULL;
        tried := tried || candidate;
    END LOOP;
    IF of_group IS NULL THEN
        RETURN;
    END IF;
    IF alone THEN
        released := 1;
    ELSE
        released := least(line.waiting, at_most) - least(line.queued, at_most);
        following := CASE WHEN line.queued > at_most THEN line.ranks[at_most + 1] END;
    END IF;
    -- What arrived and isn't handed out stays as it is: its own rank says when it is next.
    UPDATE {schema}.known_groups AS one SET
        flags = one.flags | 1, ordinal = one.ordinal + released, arrivals = one.arrivals + released,
        decided[1] = one.decided[1] + released, clock = greatest(one.clock, moment_us), ready_rank = following,
        touched_at = now()
    WHERE one.queue_id = of_queue AND one.group_key = of_group
    RETURNING one.ordinal, one.incarnation INTO known;
    IF NOT FOUND THEN
        INSERT INTO {schema}.known_groups AS one (
            queue_id, group_key, incarnation, flags, first, next, mark, last, ordinal, since, reports, clock, skipped,
            arrivals, decided, ready_rank
        )
        SELECT
            of_queue, of_group, place.incarnation, fresh[1] | 1, fresh[2], fresh[3], fresh[4], fresh[5],
            fresh[6] + released, fresh[7], fresh[8], moment_us, '{{}}', released, ARRAY[released, 0, 0, 0, 0, 0, 0],
            following
        FROM {schema}.queues AS place WHERE place.queue_id = of_queue
        RETURNING one.ordinal, one.incarnation INTO known;
    END IF;
    own := pg_current_xact_id()::text::bigint & 4294967295;
    IF alone THEN
        version := known_version;
        isolation := 'read committed';
        group_key := of_group;
        incarnation := known.incarnation;
        ordinal := known.ordinal;
        RETURN NEXT;
        RETURN;
    END IF;
    IF marks THEN
        mark := {schema}.mark_entry(of_queue, of_group, line.ids[1], (
            SELECT entry.xmax::text::bigint FROM {schema}.entries AS entry WHERE entry.entry_id = line.ids[1]
        ));
    END IF;
    IF serves AND EXISTS (
        SELECT FROM {schema}.endpoints AS side
        WHERE side.queue_id = of_queue AND side.state = 'SI'
            AND side.group_id = CASE WHEN pg_input_is_valid(of_group, 'uuid') THEN of_group::uuid END
    ) THEN
        PERFORM {schema}.converse(ARRAY(
            SELECT (stored.context -> 'dialog' ->> 'handle')::uuid
            FROM {schema}.entries AS entry
            JOIN {schema}.spool AS stored
                ON stored.arrival_id = ANY (ARRAY[entry.arrival_id]) AND stored.position = ANY (ARRAY[entry.position])
            WHERE entry.entry_id = ANY (line.ids[:at_most]) AND stored.context -> 'dialog' -> 'sequence' = '0'
        ));
    END IF;
    RETURN QUERY
    SELECT
        known_version, 'read committed', of_group, known.incarnation, entry.entry_id, entry.sequence,
        coalesce(handed.ordinal, known.ordinal - released + handed.place - line.queued), entry.late,
        stored.message_id, stored.type, stored.content_type, stored.context::text, stored.property_types, stored.body,
        stored.received_at, run.location,
        run.epoch + (run.number - 1 + stored.position) / place.last_number,
        (run.number - 1 + stored.position) % place.last_number + 1,
        entry.attempt, entry.priority::smallint, entry.subscription_ids, stored.parts::integer,
        mark, own
    FROM unnest(line.ids[:at_most], line.ordinals[:at_most]) WITH ORDINALITY AS handed (entry_id, ordinal, place)
    -- See `decide` for the ANY.
    JOIN {schema}.entries AS entry ON entry.entry_id = ANY (ARRAY[handed.entry_id])
    JOIN {schema}.spool AS stored
        ON stored.arrival_id = ANY (ARRAY[entry.arrival_id]) AND stored.position = ANY (ARRAY[entry.position])
    JOIN {schema}.tickets AS run ON run.arrival_id = ANY (ARRAY[entry.arrival_id])
    JOIN {schema}.locations AS place ON place.location = run.location
    ORDER BY handed.place;
END
$function$;

-- Count a rollback that has left its mark. At so many in a row the group is suspended, by a request that its next turn
-- obeys, and counting begins anew: then TRUE. `own`: the transaction that has the group, and will put the message back.
CREATE FUNCTION {schema}.note_rollback(
    of_queue integer, of_group text, of_entry bigint, rolled_back bigint, own bigint, at_most integer
) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    counted integer;
BEGIN
    PERFORM {schema}.permit_entries(of_queue, ARRAY[of_entry]);
    INSERT INTO {schema}.rollbacks AS known (queue_id, group_key, entry_id, times, last_by)
    VALUES (of_queue, of_group, of_entry, 1, rolled_back)
    ON CONFLICT (queue_id, group_key) DO UPDATE SET
        times = CASE WHEN known.entry_id = excluded.entry_id THEN known.times + 1 ELSE 1 END,
        entry_id = excluded.entry_id, last_by = excluded.last_by
    RETURNING known.times INTO counted;
    IF counted < at_most THEN
        RETURN FALSE;
    END IF;
    UPDATE {schema}.rollbacks AS known SET times = 0, last_by = own
    WHERE known.queue_id = of_queue AND known.group_key = of_group;
    INSERT INTO {schema}.requests (queue_id, group_key, action, rank)
    VALUES (of_queue, of_group, 'suspend', {schema}.now_us());
    INSERT INTO {schema}.operator_log (actor, action, queue, group_key, reason)
    SELECT
        'seriatim', 'suspend', place.queue, of_group,
        format(
            'the message %s of type %s was rolled back %s times in a row', stored.message_id, left(stored.type, 300), counted
        )
    FROM {schema}.entries AS entry
    JOIN {schema}.spool AS stored
        ON stored.arrival_id = ANY (ARRAY[entry.arrival_id]) AND stored.position = ANY (ARRAY[entry.position])
    JOIN {schema}.queues AS place ON place.queue_id = entry.queue_id
    WHERE entry.entry_id = of_entry;
    RETURN TRUE;
END
$function$;

-- Which of some queues have as many messages as they may, or more.
CREATE FUNCTION {schema}.full_among(of_queues integer[]) RETURNS integer[]
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $function$
BEGIN
    RETURN ARRAY(
        SELECT place.queue_id
        FROM {schema}.queues AS place
        CROSS JOIN LATERAL (SELECT (place.definition ->> 'max_messages')::bigint AS most) AS limited
        WHERE place.queue_id = ANY (of_queues) AND limited.most IS NOT NULL AND limited.most <= (
            SELECT count(*) FROM (
                SELECT FROM {schema}.entries AS entry WHERE entry.queue_id = place.queue_id LIMIT limited.most
            ) AS counted
        )
    );
END
$function$;

-- Deliver what waits in the transmission queue for services of these queues (NULL: of all) that are there, in order, as
-- far as their queues have room. What somebody has in his hands is passed over: he may wait for who calls this.
CREATE FUNCTION {schema}.transmit_into(of_queues integer[]) RETURNS bigint
LANGUAGE plpgsql
SET enable_seqscan = off
AS $function$
DECLARE
    one record;
    other record;
    gathered record;
    room bigint;
    filled integer[] := ARRAY[]::integer[];
    delivered bigint := 0;
BEGIN
    FOR one IN
        SELECT
            waiting.handle, waiting.to_service, own.conversation_id, own.is_initiator, own.is_monolog, place.queue_id,
            (home.definition ->> 'max_messages')::bigint AS most
        FROM (
            SELECT handle, to_service, min(transmission_id) AS since FROM {schema}.transmission
            WHERE of_queues IS NULL OR to_service IN (
                SELECT known.service FROM {schema}.services AS known WHERE known.queue_id = ANY (of_queues)
            ) GROUP BY handle, to_service
        ) AS waiting
        JOIN {schema}.endpoints AS own USING (handle)
        JOIN {schema}.services AS place ON place.service = waiting.to_service
        JOIN {schema}.queues AS home ON home.queue_id = place.queue_id
        WHERE place.definition -> 'contracts' ? own.contract OR NOT own.is_initiator
        ORDER BY waiting.since
    LOOP
        CONTINUE WHEN one.queue_id = ANY (filled);
        room := CASE WHEN one.most IS NOT NULL THEN one.most - (SELECT count(*) FROM (
            SELECT FROM {schema}.entries AS entry WHERE entry.queue_id = one.queue_id LIMIT one.most
        ) AS counted) END;
        IF room <= 0 THEN
            filled := filled || one.queue_id;
            CONTINUE;
        END IF;
        PERFORM FROM {schema}.endpoints AS own WHERE own.handle = one.handle FOR NO KEY UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        -- Where somebody has changed it an insertion would wait for him.
        IF one.is_initiator AND NOT EXISTS (
            SELECT FROM {schema}.endpoints AS far
            WHERE far.conversation_id = one.conversation_id AND NOT far.is_initiator AND far.service = one.to_service
        ) THEN
            PERFORM {schema}.add_targets(ARRAY[one.handle]);
        END IF;
        SELECT far.handle, far.state INTO other FROM {schema}.endpoints AS far
        WHERE far.conversation_id = one.conversation_id AND far.is_initiator <> one.is_initiator
            AND far.service = one.to_service FOR NO KEY UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND OR other.state NOT IN ('SI', 'CO') AND NOT one.is_monolog;
        WITH sent AS (
            DELETE FROM {schema}.transmission AS waiting
            WHERE waiting.transmission_id IN (
                SELECT known.transmission_id FROM {schema}.transmission AS known
                WHERE known.handle = one.handle AND known.to_service = one.to_service
                ORDER BY known.transmission_id LIMIT room
            )
            RETURNING waiting.*
        )
        SELECT
            array_agg(other.handle) AS receivers, array_agg(type ORDER BY transmission_id) AS kinds,
            array_agg(content_type ORDER BY transmission_id) AS content_types,
            array_agg(body ORDER BY transmission_id) AS bodies, array_agg(sequence ORDER BY transmission_id) AS sequences
        INTO gathered FROM sent;
        CONTINUE WHEN gathered.receivers IS NULL;
        IF other.state IN ('SI', 'CO') THEN
            PERFORM {schema}.post(
                gathered.receivers, gathered.kinds, gathered.content_types, gathered.bodies, gathered.sequences, FALSE
            );
            delivered := delivered + cardinality(gathered.receivers);
        END IF;
        IF 'EndDialog' = ANY (gathered.kinds) THEN
            IF other.state IN ('SI', 'CO') THEN
                PERFORM {schema}.become(gathered.receivers[1], 'DI');
            END IF;
            IF one.is_monolog AND NOT EXISTS (
                SELECT FROM {schema}.transmission AS waiting WHERE waiting.handle = one.handle
            ) THEN
                PERFORM {schema}.become(one.handle, 'CD');
            END IF;
        END IF;
    END LOOP;
    RETURN delivered;
END
$function$;

-- As `transmit_into`, of one queue, for who receives from it.
CREATE FUNCTION {schema}.transmit_to(of_queue integer) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    RETURN {schema}.transmit_into(ARRAY[of_queue]);
END
$function$;
