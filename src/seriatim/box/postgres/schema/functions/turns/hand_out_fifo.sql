-- Hand out the next messages of a `Fifo` queue, such as a service's: of the group that has waited longest, or of the
-- group `named`, the queued ones and then the arrivals, in order of commit, and lock that group. Arrivals leave
-- unchanged, so no rule is needed, as long as nothing stops the group, goes ahead, or may not be seen yet. Return no
-- row if a turn is needed: one of these is so, an operator has a request, a timer is due, the definitions have
-- changed, the last turn of the group was rolled back, or there are so many arrivals that judging them at once is
-- cheaper.
--
-- The caller knows, as of `known_version`, that all subscriptions of the queue are started. `at_us`: the time, NULL:
-- the clock's. `fresh`: the state of a new group. `serves`: the queue is a service's; dialogs whose first message
-- this is converse from here on. `marks`: count rollbacks, see `take_in_hand`. `from_rank`: see `head_of`. `settled`,
-- `unsettled`: see `is_left`.
-- is: definer, generic plan, no seqscan, no bitmapscan, no hashjoin, no mergejoin, no sort
CREATE OR REPLACE FUNCTION {schema}.hand_out_fifo(
    of_queue integer, named text, at_most integer, at_us bigint, known_version bigint, fresh bigint[], serves boolean,
    marks boolean, from_rank bigint, settled xid8, unsettled xid8[]
)
RETURNS TABLE (
    version bigint, isolation text, group_key text, incarnation integer, entry_id bigint, sequence bigint,
    ordinal bigint, late boolean, message_id text, type text, content_type text, context text, property_types jsonb,
    body bytea, received_at timestamptz, location text, epoch bigint, number bigint, attempt integer,
    priority smallint, subscription_ids integer[], parts integer, edited boolean, rolled_back bigint, own bigint
)
AS $function$
DECLARE
    moment_us bigint := coalesce(at_us, {schema}.now_us());
    -- More arrivals are judged at once, and read again each time until they are.
    most bigint := 2 * at_most::bigint + 20;
    moment CONSTANT timestamptz := clock_timestamp(); -- see `is_due`
    candidate text := named;
    least_rank bigint := greatest(from_rank, {schema}.reached(of_queue));
    -- A transaction that commits after its first delivery needn't note how far it has come.
    is_first CONSTANT boolean := pg_current_xact_id_if_assigned() IS NULL;
    its_rank bigint;
    tried text[] := ARRAY[]::text[];
    around record;
    alone boolean := FALSE;
    of_group text;
    line record;
    known record;
    released bigint;
    following bigint;
    mark bigint;
    first_id bigint;
BEGIN
    IF NOT {schema}.is_owner() THEN
        PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RETURN;
    END IF;
    IF serves THEN -- a separate statement, because an expression with a query is run as one, whatever is to the left of that
        IF EXISTS (SELECT FROM {schema}.endpoints AS side WHERE side.due_at <= moment) THEN
            RETURN;
        END IF;
    END IF;
    LOOP
        -- A group without messages to hand out is not locked: the block releases the lock.
        BEGIN
            IF named IS NOT NULL THEN
                EXIT WHEN NOT pg_try_advisory_xact_lock({schema}.group_lock(of_queue, named));
            ELSE
                -- As many locks are tried as others hold, and one more.
                SELECT next.group_key, next.rank INTO candidate, its_rank
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
                    -- The limit keeps the locking out of this. If the first groups are locked and
                    -- have more than that, a turn is needed, which goes by groups.
                    ORDER BY rank LIMIT 1000
                ) AS next
                WHERE pg_try_advisory_xact_lock({schema}.group_lock(of_queue, next.group_key))
                LIMIT 1;
                IF NOT FOUND THEN
                    EXIT WHEN least_rank = -9223372036854775808;
                    least_rank := -9223372036854775808;
                    CONTINUE;
                END IF;
            END IF;
            -- A separate statement, because it is rare, and an expression with a query is prepared as
            -- one, whatever is to the left of that.
            IF cardinality(unsettled) > 0 THEN
                IF EXISTS (SELECT FROM {schema}.to_route WHERE transaction = ANY (unsettled)) THEN
                    RAISE EXCEPTION 'a turn has to look' USING ERRCODE = 'SQ002';
                END IF;
            END IF;
            -- A separate statement: its snapshot is younger than the lock. By other definitions the queue
            -- may have another policy.
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
                    SELECT FROM {schema}.trials AS trial
                    WHERE trial.queue_id = of_queue AND trial.unit = candidate
                ) OR EXISTS (
                    SELECT FROM {schema}.known_groups AS one
                    WHERE one.queue_id = of_queue AND one.group_key = candidate AND (
                        one.flags > {flag.BEGUN} OR one.due_at IS NOT NULL
                        OR one.xmax <> '0' AND {schema}.was_rolled_back(one.xmax)
                    )
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
            -- One message, and none was judged: the first arrival is the one, if its place among the
            -- others is known without their tickets.
            IF at_most = 1 AND NOT (around.queues OR serves OR marks) THEN
                SELECT
                    entry.entry_id, entry.sequence, entry.late, stored.message_id, stored.type, stored.content_type,
                    stored.context::text, stored.property_types, {handed_body()}, stored.received_at, run.location,
                    run.epoch + (run.number - 1 + stored.position) / place.last_number,
                    (run.number - 1 + stored.position) % place.last_number + 1,
                    entry.attempt, entry.priority, entry.subscription_ids, stored.parts, entry.edited
                INTO
                    entry_id, sequence, late, message_id, type, content_type, context, property_types, body,
                    received_at, location, epoch, number, attempt, priority, subscription_ids, parts, edited
                FROM (
                    SELECT one.* FROM {schema}.entries AS one
                    WHERE one.queue_id = of_queue AND one.group_key = candidate AND one.status = 'arrived'
                    ORDER BY one.ordinal, one.stamp NULLS FIRST, one.serial LIMIT 1
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
                        SELECT one.entry_id, one.ordinal, one.rank, one.ahead, one.visible_at, one.serial
                        FROM {schema}.entries AS one
                        WHERE one.queue_id = of_queue AND one.group_key = candidate AND one.status = 'queued'
                        ORDER BY one.ordinal LIMIT at_most + 1::bigint
                    ) AS queued
                    UNION ALL
                    SELECT
                        come.entry_id, NULL, come.rank, come.ahead, come.visible_at, come.serial, run.stamp, 1
                    FROM (
                        SELECT one.* FROM {schema}.entries AS one
                        -- See `has_work`.
                        WHERE one.queue_id = of_queue AND one.group_key = candidate
                            AND one.status >= 'arrived' AND one.status <= 'arrived'
                            -- Where enough was judged, arrivals wait for their turn, but for those that go ahead.
                            AND (serves OR NOT around.queues OR (
                                SELECT count(*) FROM (
                                    SELECT FROM {schema}.entries AS other
                                    WHERE other.queue_id = of_queue AND other.group_key = candidate
                                        AND other.status = 'queued' LIMIT at_most
                                ) AS enough
                            ) < at_most)
                        LIMIT most + 1
                    ) AS come
                    -- The transaction's own messages are numbered at its commit, and invisible
                    -- before.
                    JOIN {schema}.tickets AS run ON run.arrival_id = ANY (ARRAY[come.arrival_id])
                ) AS entry
                ORDER BY entry.part, entry.first_by, entry.serial
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
        tried := tried || candidate;
        -- Each look skips those that were tried; a turn goes by groups.
        EXIT WHEN named IS NOT NULL OR cardinality(tried) >= 40;
    END LOOP;
    IF of_group IS NULL THEN
        RETURN;
    ELSIF named IS NULL AND NOT is_first THEN
        PERFORM {schema}.reach(of_queue, its_rank);
    END IF;
    IF alone THEN
        released := 1;
    ELSE
        released := least(line.waiting, at_most) - least(line.queued, at_most);
        following := CASE WHEN line.queued > at_most THEN line.ranks[at_most + 1] END;
    END IF;
    -- Arrivals that aren't handed out stay unchanged: their own rank decides when the group is next.
    UPDATE {schema}.known_groups AS one SET
        flags = one.flags | {flag.BEGUN}, ordinal = one.ordinal + released, arrivals = one.arrivals + released,
        decided[{decided.RELEASED}] = one.decided[{decided.RELEASED}] + released,
        clock = greatest(one.clock, moment_us), ready_rank = following,
        touched_at = now()
    WHERE one.queue_id = of_queue AND one.group_key = of_group
    RETURNING one.ordinal, one.incarnation INTO known;
    IF NOT FOUND THEN
        -- A known group bears the mark of a rolled-back transaction; of a new one the first message does.
        IF NOT marks THEN -- as `leave_mark`, within this function for its cost
            IF alone THEN
                first_id := entry_id;
            ELSE
                first_id := line.ids[1];
            END IF;
            IF {schema}.was_rolled_back((SELECT one.xmax FROM {schema}.entries AS one WHERE one.entry_id = first_id)) THEN
                RETURN;
            END IF;
            PERFORM FROM {schema}.entries AS one WHERE one.entry_id = first_id FOR UPDATE SKIP LOCKED;
        END IF;
        INSERT INTO {schema}.known_groups AS one (
            queue_id, group_key, incarnation, flags, first, next, mark, last, ordinal, since, reports, clock, skipped,
            arrivals, decided, ready_rank
        )
        SELECT
            of_queue, of_group, place.incarnation, fresh[1] | {flag.BEGUN}, fresh[2], fresh[3], fresh[4], fresh[5],
            fresh[6] + released, fresh[7], fresh[8], moment_us, '{}', released, ARRAY[released, 0, 0, 0, 0, 0, 0],
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
        stored.message_id, stored.type, stored.content_type, stored.context::text, stored.property_types, {handed_body()},
        stored.received_at, run.location,
        run.epoch + (run.number - 1 + stored.position) / place.last_number,
        (run.number - 1 + stored.position) % place.last_number + 1,
        entry.attempt, entry.priority::smallint, entry.subscription_ids, stored.parts::integer,
        entry.edited, mark, own
    FROM unnest(line.ids[:at_most], line.ordinals[:at_most]) WITH ORDINALITY AS handed (entry_id, ordinal, place)
    -- See `decide` for the ANY.
    JOIN {schema}.entries AS entry ON entry.entry_id = ANY (ARRAY[handed.entry_id])
    {of_entry()}
    ORDER BY handed.place;
END
$function$;
