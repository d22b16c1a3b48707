-- Dialogs cost fewer statements: what waits for a service is handed out by one, without a turn that judges.

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
CREATE OR REPLACE FUNCTION {schema}.take_in_hand(of_queue integer, of_group text, of_entry bigint, begun uuid[]) RETURNS bigint
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

-- Hand out the next messages of a service's queue: of the group that has waited longest, what is queued and then what
-- has arrived, in order of commit, and lock that group. A queue of dialogs is first in, first out: what has arrived
-- leaves as it is, so no rule has to be asked as long as nothing stops the group, goes ahead, or may not be seen yet.
-- Where one of these is so, an operator has asked something, a timer is due, or so much has arrived that it is cheaper
-- judged at once, there is no row: then it is a turn's turn. Nor is there where the definitions have changed. `fresh`: the state of a group that is new. `marks`: count
-- rollbacks, see `take_in_hand`. Dialogs of which it is the first message converse from here on.
CREATE FUNCTION {schema}.take_line(
    of_queue integer, named text, at_most integer, at_us bigint, known_version bigint, fresh bigint[], marks boolean
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
    around record;
    -- The groups in the order in which they are looked at, where the first one isn't to be had.
    others CURSOR FOR
        SELECT next.group_key FROM (
            (
                SELECT one.group_key, one.ready_rank AS rank FROM {schema}.groups AS one
                WHERE one.queue_id = of_queue AND one.ready_rank IS NOT NULL ORDER BY one.ready_rank
            ) UNION ALL (
                SELECT one.group_key, one.rank FROM {schema}.entries AS one
                WHERE one.queue_id = of_queue AND one.status = 'arrived' ORDER BY one.rank
            )
        ) AS next
        ORDER BY next.rank;
    candidate text;
    tried text[] := ARRAY[]::text[];
    of_group text;
    line record;
    known record;
    released bigint;
    following bigint;
    mark bigint;
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    SELECT
        EXISTS (SELECT FROM {schema}.to_route)
            OR EXISTS (SELECT FROM {schema}.endpoints AS side WHERE side.due_at <= clock_timestamp())
            OR EXISTS (
                SELECT FROM {schema}.groups AS one WHERE one.queue_id = of_queue AND one.due_at <= moment_us
            )
            OR EXISTS (
                SELECT FROM {schema}.subscriptions AS one WHERE one.queue_id = of_queue AND one.state <> 'started'
            ) AS judges,
        (SELECT max(change.version) FROM {schema}.changes AS change) AS version,
        coalesce(named, CASE
            WHEN come.rank < ready.rank THEN come.group_key ELSE coalesce(ready.group_key, come.group_key)
        END) AS first
    INTO around
    FROM (SELECT) AS once
    LEFT JOIN LATERAL (
        SELECT one.group_key, one.ready_rank AS rank FROM {schema}.groups AS one
        WHERE one.queue_id = of_queue AND one.ready_rank IS NOT NULL ORDER BY one.ready_rank LIMIT 1
    ) AS ready ON TRUE
    LEFT JOIN LATERAL (
        SELECT one.group_key, one.rank FROM {schema}.entries AS one
        WHERE one.queue_id = of_queue AND one.status = 'arrived' ORDER BY one.rank LIMIT 1
    ) AS come ON TRUE;
    -- By other definitions the queue may have another policy.
    IF around.judges OR around.version <> known_version
        OR current_setting('transaction_isolation') <> 'read committed' THEN
        RETURN;
    END IF;
    candidate := around.first;
    WHILE candidate IS NOT NULL LOOP
        -- A group that isn't handed out of is not locked: the block takes the lock back.
        <<attempt>>
        BEGIN
            EXIT attempt WHEN NOT pg_try_advisory_xact_lock({schema}.group_lock(of_queue, candidate));
            -- A statement of its own: its snapshot is younger than the lock.
            SELECT
                count(*) AS waiting, count(one.ordinal) AS queued, array_agg(one.entry_id) AS ids,
                array_agg(one.ordinal) AS ordinals, array_agg(one.rank) AS ranks, (array_agg(one.mark))[1] AS mark,
                coalesce(bool_or(one.ahead OR one.visible_at IS NOT NULL), FALSE)
                    OR EXISTS (
                        SELECT FROM {schema}.groups AS other
                        WHERE other.queue_id = of_queue AND other.group_key = candidate
                            AND (other.flags > 1 OR other.due_at IS NOT NULL)
                    )
                    OR EXISTS (
                        SELECT FROM {schema}.requests AS request WHERE request.queue_id = of_queue
                    )
                    OR EXISTS (
                        SELECT FROM {schema}.leases AS lease
                        WHERE lease.queue_id = of_queue AND lease.group_key = candidate
                    ) AS judges,
                EXISTS (
                    SELECT FROM {schema}.endpoints AS side
                    WHERE side.queue_id = of_queue AND side.state = 'SI'
                        AND side.group_id = CASE WHEN pg_input_is_valid(candidate, 'uuid') THEN candidate::uuid END
                ) AS begins
            INTO line
            FROM (
                SELECT entry.* FROM (
                    SELECT queued.*, queued.ordinal AS first_by, 0 AS part FROM (
                        SELECT
                            one.entry_id, one.ordinal, one.rank, one.ahead, one.visible_at, one.position,
                            one.xmax::text::bigint AS mark
                        FROM {schema}.entries AS one
                        WHERE one.queue_id = of_queue AND one.group_key = candidate AND one.status = 'queued'
                        ORDER BY one.ordinal LIMIT at_most + 1::bigint
                    ) AS queued
                    UNION ALL
                    SELECT
                        come.entry_id, NULL, come.rank, come.ahead, come.visible_at, come.position,
                        come.xmax::text::bigint, run.stamp, 1
                    FROM (
                        SELECT one.*, one.xmax FROM {schema}.entries AS one
                        -- Said so that the index of all that has arrived isn't one to choose.
                        WHERE one.queue_id = of_queue AND one.group_key = candidate
                            AND one.status >= 'arrived' AND one.status <= 'arrived'
                        LIMIT most + 1
                    ) AS come
                    -- What the transaction itself has sent is numbered at its commit, and nobody sees it before.
                    JOIN {schema}.tickets AS run USING (arrival_id)
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
        tried := tried || candidate;
        IF named IS NOT NULL THEN
            RETURN;
        ELSIF others IS NULL THEN
            OPEN others;
        END IF;
        LOOP
            FETCH others INTO candidate;
            EXIT WHEN (candidate <> ALL (tried)) IS NOT FALSE;
        END LOOP;
    END LOOP;
    IF others IS NOT NULL THEN
        CLOSE others;
    END IF;
    IF of_group IS NULL THEN
        RETURN;
    END IF;
    released := least(line.waiting, at_most) - least(line.queued, at_most);
    following := CASE WHEN line.queued > at_most THEN line.ranks[at_most + 1] END;
    -- What arrived and isn't handed out stays as it is: its own rank says when it is next.
    UPDATE {schema}.groups AS one SET
        flags = one.flags | 1, ordinal = one.ordinal + released, arrivals = one.arrivals + released,
        decided[1] = one.decided[1] + released, clock = greatest(one.clock, moment_us), ready_rank = following,
        touched_at = now()
    WHERE one.queue_id = of_queue AND one.group_key = of_group
    RETURNING one.ordinal, one.incarnation INTO known;
    IF NOT FOUND THEN
        INSERT INTO {schema}.groups AS one (
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
    IF marks THEN
        mark := {schema}.mark_entry(of_queue, of_group, line.ids[1], line.mark);
    END IF;
    IF line.begins THEN
        PERFORM {schema}.converse(ARRAY(
            SELECT (stored.context -> 'dialog' ->> 'handle')::uuid
            FROM {schema}.entries AS entry JOIN {schema}.spool AS stored USING (arrival_id, position)
            WHERE entry.entry_id = ANY (line.ids[:at_most]) AND stored.context -> 'dialog' -> 'sequence' = '0'
        ));
    END IF;
    RETURN QUERY
    SELECT
        around.version, 'read committed', of_group, known.incarnation, entry.entry_id, entry.sequence,
        coalesce(handed.ordinal, known.ordinal - released + handed.place - line.queued), entry.late,
        stored.message_id, stored.type, stored.content_type, stored.context::text, stored.property_types, stored.body,
        stored.received_at, run.location,
        run.epoch + (run.number - 1 + stored.position) / place.last_number,
        (run.number - 1 + stored.position) % place.last_number + 1,
        entry.attempt, entry.priority, entry.subscription_ids, stored.parts,
        mark, pg_current_xact_id()::text::bigint & 4294967295
    FROM unnest(line.ids[:at_most], line.ordinals[:at_most]) WITH ORDINALITY AS handed (entry_id, ordinal, place)
    JOIN {schema}.entries AS entry ON entry.entry_id = handed.entry_id
    JOIN {schema}.spool AS stored ON stored.arrival_id = entry.arrival_id AND stored.position = entry.position
    JOIN {schema}.tickets AS run ON run.arrival_id = entry.arrival_id
    JOIN {schema}.locations AS place ON place.location = run.location
    ORDER BY handed.place;
END
$function$;

-- A new id for a message: a UUID of version 7, so that ids made later sort later.
CREATE OR REPLACE FUNCTION {schema}.new_message_id() RETURNS text
LANGUAGE sql VOLATILE PARALLEL SAFE
-- One expression, so that it isn't called for each message.
RETURN overlay(lpad(to_hex({schema}.now_us() / 1000), 12, '0') PLACING '-' FROM 9 FOR 0) || '-7'
    || substr(gen_random_uuid()::text, 16);

-- Send messages of one type in one dialog, where nothing stands in their way: both sides are there, the other one's queue
-- has no limit, nothing of the dialog waits on its way, and nobody keeps the messages. Else it answers FALSE and has
-- changed nothing, and `try_send` looks at each of them. The caller has seen that no body is missing, or too large.
CREATE FUNCTION {schema}.send_straight(of_handle uuid, kind text, content_types text[], bodies bytea[]) RETURNS boolean
LANGUAGE plpgsql
AS $function$
DECLARE
    messages bigint := cardinality(bodies);
    one record;
    base bigint;
    arrival bigint;
    told jsonb;
BEGIN
    IF kind IN ('EndDialog', 'Error', 'Timer') THEN
        RETURN FALSE;
    END IF;
    FOR attempt IN 1..2 LOOP
        SELECT
            own.queue_id AS own_queue, own.group_id AS own_group, own.state, own.is_initiator,
            own.service AS own_service, rule.becomes, far.handle, far.conversation_id, far.service, far.queue_id, far.group_id, far.contract,
            far.priority,
            CASE WHEN own.begun_by <> pg_current_xact_id() THEN
                pg_advisory_xact_lock({schema}.group_lock(own.queue_id, own.group_id::text))
            END AS locked
        INTO one
        FROM {schema}.endpoints AS own
        JOIN {schema}.dialog_rules AS rule ON rule.verb = 'send' AND rule.state = own.state AND rule.refusal IS NULL
        JOIN {schema}.contracts AS agreed ON agreed.contract = own.contract
        JOIN {schema}.endpoints AS far
            ON far.conversation_id = own.conversation_id AND far.is_initiator <> own.is_initiator
            AND far.service = own.to_services[1] COLLATE "C"
        JOIN {schema}.queues AS place ON place.queue_id = far.queue_id
        WHERE own.handle = of_handle AND NOT own.is_monolog AND NOT own.retains AND NOT far.retains
            AND far.state IN ('SO', 'SI', 'CO', 'DI') AND place.definition ->> 'max_messages' IS NULL
            AND agreed.definition -> 'types' ->> kind IN (
                'any', CASE WHEN own.is_initiator THEN 'initiator' ELSE 'target' END
            )
            AND NOT EXISTS (
                SELECT FROM {schema}.transmission AS before
                WHERE before.to_service = far.service AND before.handle = own.handle
            )
        FOR KEY SHARE OF far;
        EXIT WHEN FOUND OR attempt = 2;
        -- With its first message a dialog gets its other side, unless that would be refused. One that the transaction
        -- itself has begun nobody else ends meanwhile.
        PERFORM {schema}.add_targets(ARRAY[of_handle])
        FROM {schema}.endpoints AS own JOIN {schema}.contracts AS agreed USING (contract)
        WHERE own.handle = of_handle AND own.begun_by = pg_current_xact_id() AND own.state = 'SO'
            AND NOT own.is_monolog AND NOT own.retains
            AND (own.expires_at > clock_timestamp()) IS NOT FALSE
            AND agreed.definition -> 'types' ->> kind IN ('any', 'initiator');
        EXIT WHEN NOT FOUND;
    END LOOP;
    IF one.handle IS NULL THEN
        RETURN FALSE;
    END IF;
    PERFORM {schema}.permit('receive', ARRAY[one.own_queue]);
    PERFORM {schema}.permit('publish', ARRAY[one.queue_id]);
    -- While its group was waited for it may have been moved, or the other side has ended.
    UPDATE {schema}.endpoints AS own SET send_sequence = own.send_sequence + messages, state = one.becomes
    WHERE own.handle = of_handle AND own.group_id = one.own_group AND own.state = one.state
        AND (own.expires_at > clock_timestamp()) IS NOT FALSE
    RETURNING own.send_sequence - messages INTO base;
    IF NOT FOUND THEN
        RETURN FALSE;
    END IF;
    INSERT INTO {schema}.arrivals (location, count, queue_ids) VALUES (one.service, messages, ARRAY[one.queue_id])
    RETURNING arrival_id INTO arrival;
    told := jsonb_build_object('dialog', jsonb_build_object(
        'handle', one.handle, 'conversation_id', one.conversation_id, 'service', one.service,
        'far_service', one.own_service, 'contract', one.contract, 'is_initiator', NOT one.is_initiator,
        'is_monolog', FALSE
    ));
    INSERT INTO {schema}.spool (arrival_id, position, message_id, type, content_type, context, body, destinations)
    SELECT
        arrival, message.place - 1, {schema}.new_message_id(), kind, message.content_type,
        jsonb_set(told, '{{dialog,sequence}}', to_jsonb(base + message.place - 1)), message.body, 1
    FROM unnest(content_types, bodies) WITH ORDINALITY AS message (content_type, body, place);
    INSERT INTO {schema}.entries (queue_id, group_key, rank, arrival_id, position, priority)
    SELECT
        one.queue_id, one.group_id::text, {schema}.now_us() - (one.priority - 5) * 10000000, arrival, position,
        one.priority
    FROM generate_series(0, messages - 1) AS position;
    RETURN TRUE;
END
$function$;

-- As `try_send`, of messages of one type in one dialog. `content_types` is NULL where none has any.
CREATE FUNCTION {schema}.try_send_run(
    handle uuid, kind text, content_types text[], bodies bytea[], OUT refused text, OUT what text, OUT remedy text
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $function$
DECLARE
    messages integer := coalesce(cardinality(bodies), 0);
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[]::integer[]);
    PERFORM {schema}.hold_definitions();
    IF messages = 0 OR array_position(bodies, NULL) > 0 OR pg_column_size(bodies) > 536870912
        OR NOT {schema}.send_straight(handle, kind, content_types, bodies) THEN
        SELECT one.* INTO refused, what, remedy FROM {schema}.try_send(
            array_fill(handle, ARRAY[messages]), array_fill(kind, ARRAY[messages]),
            coalesce(content_types, array_fill(NULL::text, ARRAY[messages])), bodies
        ) AS one;
    END IF;
END
$function$;

-- Send a message in a dialog, within the caller's transaction: for triggers, procedures and other languages.
CREATE OR REPLACE FUNCTION {schema}.send(handle uuid, type text, body bytea DEFAULT '', content_type text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    done record;
BEGIN
    done := {schema}.try_send_run(handle, type, ARRAY[content_type], ARRAY[body]);
    PERFORM {schema}.refuse(done.refused, done.what, done.remedy);
END
$function$;

-- What was handed out is done: it goes, or is kept as history. A message with a single destination goes with it; of one
-- with more, nobody who completes can tell whether he is the last, so that is left to the clean-up.
CREATE OR REPLACE FUNCTION {schema}.complete(
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
    gone record;
BEGIN
    PERFORM {schema}.permit_entries(of_queue, entry_ids);
    IF keep = 'nothing' AND cardinality(entry_ids) = 1 THEN
        -- What follows for many, without arrays.
        DELETE FROM {schema}.entries WHERE entry_id = entry_ids[1] RETURNING arrival_id, position INTO gone;
        DELETE FROM {schema}.spool AS stored
        WHERE stored.arrival_id = gone.arrival_id AND stored.position = gone.position AND stored.destinations = 1;
        IF NOT FOUND THEN
            arrivals := ARRAY[gone.arrival_id];
            positions := ARRAY[gone.position];
            alone := 0;
        END IF;
    ELSIF keep = 'nothing' THEN
        WITH done AS (
            DELETE FROM {schema}.entries WHERE entry_id = ANY (entry_ids) RETURNING arrival_id, position
        ), alone AS (
            DELETE FROM {schema}.spool AS stored USING done
            WHERE stored.arrival_id = done.arrival_id AND stored.position = done.position AND stored.destinations = 1
            RETURNING stored.position
        )
        SELECT array_agg(done.arrival_id), array_agg(done.position), (SELECT count(*) FROM alone)
        INTO arrivals, positions, alone FROM done;
    ELSIF keep = 'everything' THEN
        WITH done AS (
            DELETE FROM {schema}.entries AS entry USING unnest(entry_ids, ordinals, lates)
                AS handed (entry_id, ordinal, late)
            WHERE entry.entry_id = handed.entry_id
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
            WHERE entry.entry_id = handed.entry_id
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
            WHERE stored.arrival_id = done.arrival_id AND stored.position = done.position AND stored.destinations = 1
                AND done.attempt = 0
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
            WHERE stored.arrival_id = done.arrival_id AND stored.position = done.position
        );
    END IF;
END
$function$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA {schema} FROM PUBLIC;
