-- Queues: what waits in them, what was set aside, what was done; and how a message gets in.

-- What no subscription wanted, or what is no message of its type (`problem` says why). Kept until it is resubmitted
-- or deleted.
CREATE TABLE {schema}.unrouted (
    arrival_id bigint NOT NULL,
    position bigint NOT NULL,
    problem text,
    unrouted_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (arrival_id, position)
);

-- What was published through SQL and waits for the kernel to route it.
CREATE TABLE {schema}.to_route (
    arrival_id bigint NOT NULL,
    position bigint NOT NULL,
    -- That of its ticket: nothing that came later is judged before.
    stamp bigint NOT NULL,
    publisher text NOT NULL,
    permitted integer[],
    -- Whose it is: see `settled`.
    transaction xid8 NOT NULL DEFAULT pg_current_xact_id(),
    PRIMARY KEY (arrival_id, position)
);

CREATE SEQUENCE {schema}.entry_ids;

-- A message in a queue, until it is done or set aside. `arrived`: nobody has judged it yet; `held`; `queued`: released
-- and not handed out. Publishing inserts; only a turn, which has the group's lock, changes a row, once or twice.
CREATE TABLE {schema}.entries (
    entry_id bigint PRIMARY KEY DEFAULT nextval('{schema}.entry_ids'),
    queue_id integer NOT NULL,
    group_key text COLLATE "C" NOT NULL,
    status {schema}.entry_status NOT NULL DEFAULT 'arrived',
    -- Who is handed out next: microseconds of its arrival, less ten seconds for each level of priority above 5.
    rank bigint NOT NULL,
    arrival_id bigint NOT NULL,
    position bigint NOT NULL,
    sequence bigint,
    -- The size of its set that it tells.
    size bigint,
    priority {schema}.priority NOT NULL DEFAULT 5,
    -- Not handed out before; its group waits.
    visible_at timestamptz,
    subscription_ids integer[] NOT NULL DEFAULT '{{}}',
    -- Which message of its group it was, in order of arrival; once it is judged.
    arrival bigint,
    ordinal bigint,
    late boolean NOT NULL DEFAULT FALSE,
    waits boolean NOT NULL DEFAULT FALSE,
    attempt integer NOT NULL DEFAULT 0,
    -- In which batch a pipeline has it in hand.
    batch bigint,
    -- That of its ticket, where it had one when it came in; else the ticket tells.
    stamp bigint,
    -- Of a dialog: it goes before what is queued in its group.
    ahead boolean NOT NULL DEFAULT FALSE
) WITH (fillfactor = 80);
-- What is judged by its ordinal. Of what has arrived, first that of which only the ticket tells when it was committed, and
-- then in order of commit.
CREATE INDEX entries_of_group
ON {schema}.entries (queue_id, group_key, status, ordinal, stamp NULLS FIRST, position);
CREATE INDEX entries_arrived ON {schema}.entries (queue_id, rank) WHERE status = 'arrived';
CREATE INDEX entries_in_hand ON {schema}.entries (queue_id, batch, group_key, ordinal) WHERE batch IS NOT NULL;
CREATE INDEX entries_of_message ON {schema}.entries (arrival_id, position);

-- What was set aside, and why.
CREATE TABLE {schema}.aside (
    entry_id bigint PRIMARY KEY,
    queue_id integer NOT NULL,
    group_key text COLLATE "C",
    disposition text NOT NULL CHECK (disposition IN ('late', 'duplicate', 'invalid', 'rejected', 'dead')),
    reason text NOT NULL,
    arrival_id bigint NOT NULL,
    position bigint NOT NULL,
    sequence bigint,
    size bigint,
    priority smallint NOT NULL,
    subscription_ids integer[] NOT NULL,
    ordinal bigint,
    attempt integer NOT NULL DEFAULT 0,
    aside_at timestamptz NOT NULL DEFAULT now(),
    late boolean NOT NULL DEFAULT FALSE
);
CREATE INDEX aside_of_group ON {schema}.aside (queue_id, group_key);
CREATE INDEX aside_of_message ON {schema}.aside (arrival_id, position);

-- What was done, of queues that keep it.
CREATE TABLE {schema}.history (
    entry_id bigint NOT NULL,
    queue_id integer NOT NULL,
    group_key text COLLATE "C" NOT NULL,
    incarnation integer NOT NULL,
    ordinal bigint,
    late boolean NOT NULL,
    arrival_id bigint NOT NULL,
    position bigint NOT NULL,
    sequence bigint,
    subscription_ids integer[] NOT NULL,
    attempt integer NOT NULL,
    done_at timestamptz NOT NULL DEFAULT now(),
    -- By queue and age: that is how it goes.
    PRIMARY KEY (queue_id, done_at, entry_id)
) PARTITION BY RANGE (done_at);

CREATE TABLE {schema}.history_rest PARTITION OF {schema}.history DEFAULT;
CREATE INDEX history_of_group ON {schema}.history (queue_id, group_key);
CREATE INDEX history_of_message ON {schema}.history (arrival_id, position);

-- What is remembered of a group: the columns of the kernel's state, and when it wants to be looked at. Written by
-- turns alone, which have the group's lock; publishers touch nothing of it.
CREATE TABLE {schema}.known_groups (
    queue_id integer NOT NULL,
    group_key text COLLATE "C" NOT NULL,
    incarnation integer NOT NULL DEFAULT 0,
    flags bigint NOT NULL,
    first bigint NOT NULL,
    next bigint NOT NULL,
    mark bigint NOT NULL,
    last bigint NOT NULL,
    ordinal bigint NOT NULL,
    since bigint NOT NULL,
    reports bigint NOT NULL,
    clock bigint NOT NULL,
    -- Pairs of the first and last number of each range that was skipped.
    skipped bigint[] NOT NULL,
    -- How many messages it took in.
    arrivals bigint NOT NULL,
    -- What became of those that are gone: by its number in the kernel's dispositions.
    decided bigint[] NOT NULL DEFAULT '{{0,0,0,0,0,0,0}}',
    -- When its next timer, or the next message that may not be seen before, is due; microseconds.
    due_at bigint,
    -- The rank of its first message that can be handed out.
    ready_rank bigint,
    touched_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (queue_id, group_key)
) WITH (fillfactor = 50);
CREATE INDEX groups_ready ON {schema}.known_groups (queue_id, ready_rank) WHERE ready_rank IS NOT NULL;
CREATE INDEX groups_due ON {schema}.known_groups (queue_id, due_at) WHERE due_at IS NOT NULL;

-- What an operator asked of a group that was locked: the next turn of the group obeys it before anything else. `rank`
-- makes a group that has nothing else to do one of those to look at; and that is all that `look` asks.
CREATE TABLE {schema}.requests (
    request_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue_id integer NOT NULL,
    group_key text COLLATE "C" NOT NULL,
    action text NOT NULL CHECK (action IN ('suspend', 'resume', 'look')),
    rank bigint NOT NULL
);
CREATE INDEX requests_of_queue ON {schema}.requests (queue_id, rank);
CREATE INDEX requests_of_group ON {schema}.requests (queue_id, group_key);

-- Who waits for a message. Whoever brings one takes a row away at its commit, and calls.
CREATE UNLOGGED TABLE {schema}.waiters (
    waiter_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue_id integer NOT NULL,
    channel text NOT NULL,
    since timestamptz NOT NULL DEFAULT now(),
    -- Whether he would route what was published through SQL.
    routes boolean NOT NULL DEFAULT FALSE
);
CREATE INDEX waiters_of_queue ON {schema}.waiters (queue_id);

-- The lock of a group: one transaction at a time works on it, and publishers don't know it.
CREATE FUNCTION {schema}.group_lock(of_queue integer, of_group text) RETURNS bigint
LANGUAGE sql STABLE STRICT PARALLEL SAFE
RETURN hashtextextended(of_group, ('{schema}'::regnamespace::oid::bigint << 32) | of_queue);

-- Put messages of the spool, at the places (arrival_ids, positions), into queues. The first arrays are as long as there
-- are messages (an arrival of 0: leave it out), the others as there are entries; `entry_places` counts messages from 1.
-- A message without any entry is unrouted; `problems` says where it isn't what its type says. `stamps`: those of their
-- tickets, or NULL where they have none yet.
CREATE FUNCTION {schema}.enter(
    arrival_ids bigint[], positions bigint[], destinations integer[], problems text[], seen_from timestamptz,
    entry_places bigint[], entry_queues integer[], entry_groups text[], entry_sequences bigint[],
    entry_sizes bigint[], entry_priorities integer[], entry_problems text[], entry_subscriptions text[],
    stamps bigint[]
) RETURNS void
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
AS $function$
DECLARE
    moment_us bigint := {schema}.now_us();
BEGIN
    INSERT INTO {schema}.entries (
        queue_id, group_key, rank, arrival_id, position, sequence, size, priority, visible_at, subscription_ids, stamp
    )
    SELECT
        queue_id, group_key, moment_us - (priority - 5) * 10000000, arrival_ids[place], positions[place], sequence,
        size, priority, seen_from, subscription_ids::integer[], stamps[place]
    FROM unnest(
        entry_places, entry_queues, entry_groups, entry_sequences, entry_sizes, entry_priorities, entry_problems,
        entry_subscriptions
    ) AS entry (place, queue_id, group_key, sequence, size, priority, problem, subscription_ids)
    WHERE problem IS NULL AND arrival_ids[place] > 0;
    IF cardinality(array_remove(entry_problems, NULL)) > 0 THEN
        INSERT INTO {schema}.aside (
            entry_id, queue_id, group_key, disposition, reason, arrival_id, position, sequence, size, priority,
            subscription_ids
        )
        SELECT
            nextval('{schema}.entry_ids'), queue_id, group_key, 'invalid', problem, arrival_ids[place],
            positions[place], sequence, size, priority, subscription_ids::integer[]
        FROM unnest(
            entry_places, entry_queues, entry_groups, entry_sequences, entry_sizes, entry_priorities, entry_problems,
            entry_subscriptions
        ) AS entry (place, queue_id, group_key, sequence, size, priority, problem, subscription_ids)
        WHERE problem IS NOT NULL AND arrival_ids[place] > 0;
    END IF;
    IF 0 = ANY (destinations) THEN
        INSERT INTO {schema}.unrouted (arrival_id, position, problem)
        SELECT arrival_id, position, problem
        FROM unnest(arrival_ids, positions, destinations, problems) AS message (arrival_id, position, queues, problem)
        WHERE queues = 0 AND arrival_id > 0;
    END IF;
END
$function$;

-- The transaction commits before it is on disk. Not where a standby has to have it, too: that is waited for at a commit.
CREATE FUNCTION {schema}.commit_early() RETURNS text
LANGUAGE sql VOLATILE
RETURN CASE current_setting('synchronous_standby_names') WHEN '' THEN set_config('synchronous_commit', 'off', TRUE) END;

-- Take messages in, with the queues that they were routed to. Answers FALSE, and takes nothing in, if the definitions
-- have changed since `known_version`. Messages that were published before are left out. The arrays are those of
-- `enter`; `destinations` says how many queues get each message. They are ordered at once, and handed out from
-- `visible_at`, or after the `delay`. The last arrays are their parts; `part_counts` is NULL where none has any.
-- `by_itself`: the commit follows at once, and what would be done there is done here. `flushed`: afterwards the caller sees
-- to it that it is on disk, and nobody who waits for a location has to wait for the disk.
CREATE FUNCTION {schema}.take_in(
    known_version bigint, message_ids text[], types text[], locations text[], content_types text[],
    contexts text[], property_types text[], bodies bytea[], destinations integer[], problems text[],
    visible_at timestamptz, delay interval,
    entry_places bigint[], entry_queues integer[], entry_groups text[], entry_sequences bigint[],
    entry_sizes bigint[], entry_priorities integer[], entry_problems text[], entry_subscriptions text[],
    part_counts integer[], part_places bigint[], part_names text[], part_content_types text[], part_bodies bytea[],
    by_itself boolean, flushed boolean
) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan
AS $function$
DECLARE
    seen_from timestamptz := coalesce(visible_at, clock_timestamp() + delay);
    arrival_ids bigint[];
    positions bigint[];
    numbered bigint[];
    stamped bigint[];
    stamps bigint[];
    early text;
BEGIN
    PERFORM {schema}.permit('publish', entry_queues);
    IF known_version <> {schema}.hold_definitions() THEN
        RETURN FALSE;
    END IF;
    WITH incoming AS MATERIALIZED (
        SELECT * FROM unnest(message_ids, locations) WITH ORDINALITY AS message (message_id, location, place)
    ), fresh AS (
        -- In one order for all publishers, so that two of them never wait for each other crosswise.
        INSERT INTO {schema}.message_ids (message_id)
        SELECT message_id FROM incoming ORDER BY message_id
        ON CONFLICT DO NOTHING
        RETURNING message_id
    ), numbered AS MATERIALIZED (
        SELECT place, location, row_number() OVER (PARTITION BY location ORDER BY place) - 1 AS position
        FROM incoming JOIN fresh USING (message_id)
    ), arrived AS (
        INSERT INTO {schema}.arrivals (location, count, queue_ids)
        SELECT location, count(*), ARRAY(SELECT DISTINCT unnest(entry_queues)) FROM numbered GROUP BY location
        RETURNING arrival_id, location
    )
    SELECT
        array_agg(coalesce(arrival_id, 0) ORDER BY place), array_agg(coalesce(position, 0) ORDER BY place)
    INTO arrival_ids, positions
    FROM incoming LEFT JOIN (
        SELECT place, position, arrival_id FROM numbered JOIN arrived USING (location)
    ) AS placed USING (place);
    INSERT INTO {schema}.spool (
        arrival_id, position, message_id, type, content_type, context, property_types, body, destinations, visible_at,
        parts
    )
    SELECT
        arrival_ids[place], positions[place], message_id, type, content_type, context::jsonb,
        message.property_types::jsonb, body, queues, seen_from, parts
    FROM unnest(
        message_ids, types, content_types, contexts, property_types, bodies, destinations, part_counts
    ) WITH ORDINALITY AS message (message_id, type, content_type, context, property_types, body, queues, parts, place)
    WHERE arrival_ids[place] > 0;
    IF part_counts IS NOT NULL THEN
        INSERT INTO {schema}.message_parts (arrival_id, position, number, name, content_type, body)
        SELECT arrival_ids[place], positions[place], number, name, content_type, body
        FROM unnest(part_places, part_names, part_content_types, part_bodies)
            WITH ORDINALITY AS part (place, name, content_type, body, number)
        WHERE arrival_ids[place] > 0;
    END IF;
    IF flushed THEN
        early := {schema}.commit_early();
    END IF;
    IF by_itself THEN
        -- From here on nobody else gets a number of these locations: what comes in order of commit can be written so.
        SET CONSTRAINTS {schema}.number_at_commit IMMEDIATE;
        SELECT array_agg(run.arrival_id), array_agg(run.stamp) INTO numbered, stamped
        FROM {schema}.tickets AS run WHERE run.arrival_id = ANY (ARRAY(SELECT DISTINCT unnest(arrival_ids)));
        stamps := ARRAY(
            SELECT stamped[array_position(numbered, arrival_id)]
            FROM unnest(arrival_ids) WITH ORDINALITY AS arrival (arrival_id, place) ORDER BY place
        );
    END IF;
    PERFORM {schema}.enter(
        arrival_ids, positions, destinations, problems, seen_from, entry_places, entry_queues, entry_groups,
        entry_sequences, entry_sizes, entry_priorities, entry_problems, entry_subscriptions, stamps
    );
    RETURN TRUE;
END
$function$;

-- As `take_in`, for one message without parts that goes to one queue: without arrays, joins and sorts.
CREATE FUNCTION {schema}.take_in_one(
    known_version bigint, of_message text, of_type text, at_location text, of_content_type text,
    of_context text, of_property_types text, of_body bytea, visible_at timestamptz, delay interval,
    of_queue integer, of_group text, of_sequence bigint, of_size bigint, of_priority integer, by_subscriptions integer[],
    by_itself boolean, flushed boolean
) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET plan_cache_mode = force_generic_plan
AS $function$
DECLARE
    seen_from timestamptz := coalesce(visible_at, clock_timestamp() + delay);
    arrival bigint;
    stamped bigint;
    early text;
BEGIN
    IF NOT {schema}.is_owner() THEN
        PERFORM {schema}.permit('publish', ARRAY[of_queue]);
    END IF;
    IF known_version <> {schema}.hold_definitions() THEN
        RETURN FALSE;
    END IF;
    INSERT INTO {schema}.message_ids (message_id) VALUES (of_message) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN TRUE;
    END IF;
    IF by_itself THEN
        arrival := nextval('{schema}.arrival_ids');
    ELSE
        INSERT INTO {schema}.arrivals (location, count, queue_ids) VALUES (at_location, 1, ARRAY[of_queue])
        RETURNING arrival_id INTO arrival;
    END IF;
    INSERT INTO {schema}.spool (
        arrival_id, position, message_id, type, content_type, context, property_types, body, destinations, visible_at
    ) VALUES (
        arrival, 0, of_message, of_type, of_content_type, of_context::jsonb, of_property_types::jsonb, of_body, 1,
        seen_from
    );
    IF flushed THEN
        early := {schema}.commit_early();
    END IF;
    IF by_itself THEN
        -- Without a row that says at the commit what is to be done there.
        IF EXISTS (SELECT FROM {schema}.waiters) THEN
            PERFORM {schema}.call_waiters(ARRAY[of_queue], 1);
        END IF;
        stamped := ({schema}.dispense(at_location, 1, arrival)).stamp;
    END IF;
    INSERT INTO {schema}.entries (
        queue_id, group_key, rank, arrival_id, position, sequence, size, priority, visible_at, subscription_ids, stamp
    ) VALUES (
        of_queue, of_group, {schema}.now_us() - (of_priority - 5) * 10000000, arrival, 0, of_sequence, of_size,
        of_priority, seen_from, by_subscriptions, stamped
    );
    RETURN TRUE;
END
$function$;

-- How many more messages each of some queues may take, where `mosts` says how many it may have. Reads so many entries
-- of an index.
CREATE FUNCTION {schema}.room_in(of_queues integer[], mosts bigint[]) RETURNS bigint[]
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    PERFORM {schema}.permit('publish', of_queues);
    RETURN ARRAY(
        SELECT most - (
            SELECT count(*) FROM (SELECT FROM {schema}.entries WHERE queue_id = queue LIMIT most) AS counted
        )
        FROM unnest(of_queues, mosts) WITH ORDINALITY AS asked (queue, most, place)
        ORDER BY place
    );
END
$function$;

-- Which of some messages a full queue takes nevertheless: those that fill a hole, because something later of their group
-- (`whole`: anything of their set) is there and waits for them, and they aren't; and those that were published before,
-- which add nothing.
CREATE FUNCTION {schema}.waited_for(
    of_queue integer, whole boolean, ids text[], group_keys text[], sequences bigint[]
) RETURNS boolean[]
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    PERFORM {schema}.permit('publish', ARRAY[of_queue]);
    RETURN ARRAY(
        SELECT EXISTS (
            SELECT FROM {schema}.message_ids AS known WHERE known.message_id = asked.message_id
        ) OR EXISTS (
            SELECT FROM {schema}.entries AS later
            WHERE later.queue_id = of_queue AND later.group_key = asked.group_key
                AND later.status IN ('held', 'arrived') AND (whole OR later.sequence > asked.sequence)
        ) AND NOT EXISTS (
            SELECT FROM {schema}.entries AS same
            WHERE same.queue_id = of_queue AND same.group_key = asked.group_key
                AND same.status IN ('held', 'arrived') AND same.sequence = asked.sequence
        ) AND NOT EXISTS (
            SELECT FROM {schema}.known_groups AS known
            WHERE known.queue_id = of_queue AND known.group_key = asked.group_key AND known.next > asked.sequence
                AND NOT whole
        )
        FROM unnest(ids, group_keys, sequences) WITH ORDINALITY AS asked (message_id, group_key, sequence, place)
        ORDER BY place
    );
END
$function$;

-- What the dispenser of each location gives next; how many of its messages are in queues (`in_queue`); and through which
-- ticket none is any more: `last_sent` of `last_sent_epoch`, NULL before the first. That is computed from the entries, so
-- that whoever delivers moves both, in his transaction, without a row that all would have to lock.
CREATE VIEW {schema}.dispensers AS
SELECT
    place.location,
    coalesce(newest.epoch + newest.taken / place.last_number, 0) AS epoch,
    coalesce(newest.taken % place.last_number + 1, 1) AS next_number,
    place.last_number,
    CASE WHEN mark.sent >= 0 THEN div(mark.sent, place.last_number)::bigint END AS last_sent_epoch,
    CASE WHEN mark.sent >= 0 THEN (mark.sent % place.last_number + 1)::bigint END AS last_sent,
    coalesce(waiting.messages, 0) AS in_queue
FROM {schema}.locations AS place
LEFT JOIN LATERAL (
    SELECT run.epoch, run.number - 1 + run.count AS taken
    FROM {schema}.tickets AS run WHERE run.location = place.location
    ORDER BY run.epoch DESC, run.number DESC LIMIT 1
) AS newest ON TRUE
LEFT JOIN (
    SELECT
        run.location,
        sum(arrived.messages)::bigint AS messages,
        min(run.epoch::numeric * start.last_number + run.number - 1 + arrived.first) AS oldest
    FROM (
        -- By arrival, which an index tells in order: neither all messages nor all tickets are sorted.
        SELECT arrival_id, count(DISTINCT position) AS messages, min(position) AS first
        FROM (
            SELECT arrival_id, position FROM {schema}.entries
            UNION ALL
            SELECT arrival_id, position FROM {schema}.to_route
        ) AS message
        GROUP BY arrival_id
    ) AS arrived
    JOIN {schema}.tickets AS run USING (arrival_id)
    JOIN {schema}.locations AS start USING (location)
    GROUP BY run.location
) AS waiting ON waiting.location = place.location
CROSS JOIN LATERAL (
    SELECT coalesce(
        waiting.oldest, newest.epoch::numeric * place.last_number + newest.taken, 0
    ) - 1 AS sent
) AS mark;

-- What operators have done, and why. Rows are only added.
CREATE TABLE {schema}.operator_log (
    operation_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT now(),
    actor text NOT NULL CHECK (length(actor) BETWEEN 1 AND 256),
    action text NOT NULL,
    queue text COLLATE "C",
    group_key text COLLATE "C",
    reason text NOT NULL CHECK (length(reason) BETWEEN 1 AND 4096),
    details jsonb NOT NULL DEFAULT '{{}}'
);
CREATE INDEX operator_log_of_group ON {schema}.operator_log (queue, group_key, operation_id);

-- What has been done stays written.
CREATE FUNCTION {schema}.refuse_change() RETURNS trigger
LANGUAGE plpgsql
AS $function$
BEGIN
    RAISE EXCEPTION 'rows of the operator log are only added' USING ERRCODE = 'insufficient_privilege';
END
$function$;
CREATE TRIGGER only_added BEFORE UPDATE OR DELETE OR TRUNCATE ON {schema}.operator_log
FOR EACH STATEMENT EXECUTE FUNCTION {schema}.refuse_change();
CREATE INDEX to_route_in_order ON {schema}.to_route (stamp, position);
CREATE INDEX to_route_of_transaction ON {schema}.to_route (transaction);

-- What was published through SQL is looked for in the transactions from `settled` on and in those that are `unsettled`:
-- whatever waits at any moment after this is there. So who looks doesn't read what was routed before, which stands there
-- until it is vacuumed, or as long as a transaction is held open. `took_us`: how long it took to find that.
CREATE FUNCTION {schema}.settled(OUT settled xid8, OUT unsettled xid8[], OUT took_us bigint)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    began bigint := {schema}.now_us();
    seen record;
    running xid8[];
    following bigint;
BEGIN
    PERFORM {schema}.permit_anything();
    -- One statement: what it doesn't see is of a transaction that hadn't ended in that snapshot.
    SELECT min(one.transaction) AS waiting, pg_current_snapshot() AS snapshot INTO seen FROM {schema}.to_route AS one;
    -- A snapshot doesn't count the transaction itself among those that run.
    running := ARRAY(SELECT pg_snapshot_xip(seen.snapshot)) || pg_current_xact_id_if_assigned();
    following := pg_snapshot_xmax(seen.snapshot)::text::bigint;
    -- Those that have begun lately are no list: from the first of them on.
    settled := least(seen.waiting, pg_snapshot_xmax(seen.snapshot), (
        SELECT min(one) FROM unnest(running) AS one WHERE one::text::bigint >= following - 1000
    ));
    unsettled := ARRAY(SELECT one FROM unnest(running) AS one WHERE one < settled);
    took_us := {schema}.now_us() - began;
END
$function$;

-- Does something that was published through SQL wait to be routed? The order leaves one index to choose.
CREATE FUNCTION {schema}.is_left(settled xid8, unsettled xid8[]) RETURNS boolean
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_sort = off
AS $function$
BEGIN
    RETURN (
        SELECT transaction FROM {schema}.to_route WHERE transaction >= settled ORDER BY transaction LIMIT 1
    ) IS NOT NULL OR cardinality(unsettled) > 0 AND EXISTS (
        SELECT FROM {schema}.to_route WHERE transaction = ANY (unsettled)
    );
END
$function$;

-- Call whoever waits for a message of one of these queues: at most so many, each once. Who waits for a group of its own
-- may be called for another's, and passes the call on to one who waited then, too: so each is told who was the newest. 0
-- among the queues stands for what isn't routed yet: that calls one who routes, wherever he waits.
CREATE FUNCTION {schema}.call_waiters(of_queues integer[], how_many bigint) RETURNS void
LANGUAGE plpgsql
SET enable_seqscan = off
AS $function$
DECLARE
    called text;
    newest text;
BEGIN
    IF NOT EXISTS (SELECT FROM {schema}.waiters) THEN
        RETURN;
    END IF;
    newest := (SELECT last_value FROM {schema}.waiters_waiter_id_seq);
    FOR called IN
        DELETE FROM {schema}.waiters WHERE waiter_id IN (
            SELECT waiter_id FROM {schema}.waiters
            WHERE queue_id = ANY (of_queues) ORDER BY waiter_id LIMIT how_many FOR UPDATE SKIP LOCKED
        ) RETURNING channel
    LOOP
        PERFORM pg_notify(called, newest);
    END LOOP;
    IF 0 = ANY (of_queues) THEN
        DELETE FROM {schema}.waiters WHERE waiter_id = (
            SELECT waiter_id FROM {schema}.waiters WHERE routes ORDER BY waiter_id LIMIT 1 FOR UPDATE SKIP LOCKED
        ) RETURNING channel INTO called;
        IF FOUND THEN
            PERFORM pg_notify(called, newest);
        END IF;
    END IF;
END
$function$;

-- Ask to be called when a message comes to a queue.
CREATE FUNCTION {schema}.register(of_queue integer) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    number bigint;
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    INSERT INTO {schema}.waiters (queue_id, channel, routes)
    VALUES (of_queue, 'seriatim_' || pg_backend_pid(), {schema}.may_route()) RETURNING waiter_id INTO number;
    RETURN number;
END
$function$;

-- No more be called. Whoever has called already has taken the row away.
CREATE FUNCTION {schema}.unregister(waiter bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM {schema}.permit_anything();
    DELETE FROM {schema}.waiters WHERE waiter_id = waiter AND channel = 'seriatim_' || pg_backend_pid();
END
$function$;

-- Call the next one who waits for a message of a queue, behind the waiter who was called and has no use for it, as far as
-- the newest there was then: so a call goes round once.
CREATE FUNCTION {schema}.pass_on(of_queue integer, waiter bigint, newest bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    called text;
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    DELETE FROM {schema}.waiters WHERE waiter_id = (
        SELECT waiter_id FROM {schema}.waiters
        WHERE queue_id = of_queue AND waiter_id > waiter AND waiter_id <= newest
        ORDER BY waiter_id LIMIT 1 FOR UPDATE SKIP LOCKED
    ) RETURNING channel INTO called;
    IF FOUND THEN
        PERFORM pg_notify(called, newest::text);
    END IF;
END
$function$;

-- Seconds until the next timer of a queue, or of any dialog, is due; NULL: there is none.
CREATE FUNCTION {schema}.next_due(of_queue integer) RETURNS float8
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    RETURN (
        SELECT least(
            (
                SELECT (min(due_at) - {schema}.now_us()) / 1e6::float8 FROM {schema}.known_groups
                WHERE queue_id = of_queue AND due_at IS NOT NULL
            ),
            -- What is due and still there is in somebody's hands: it is looked at again, but not without a pause.
            (
                SELECT greatest(extract(epoch FROM due_at - clock_timestamp())::float8, 0.05) FROM {schema}.endpoints
                WHERE due_at IS NOT NULL ORDER BY due_at LIMIT 1
            )
        )
    );
END
$function$;

-- The queue that a message of SQL's is addressed to, if that is full, refuses what doesn't fit, and the message surely
-- fills no hole there: its group and number are told, as text and number, and nothing later of its group waits. NULL: it
-- comes in. What is only in the body the kernel alone can find; and nobody waits within a statement.
CREATE FUNCTION {schema}.full_for(context jsonb) RETURNS text
LANGUAGE plpgsql STABLE
SET enable_seqscan = off
AS $function$
DECLARE
    place record;
    fills boolean := FALSE;
BEGIN
    SELECT queue_id, queue, (definition ->> 'max_messages')::bigint AS most, definition #>> '{{policy,name}}' AS policy,
        definition ->> 'group' AS grouped, definition ->> 'sequence' AS numbered
    INTO place
    FROM {schema}.queues
    WHERE queue = context ->> 'to' AND definition ->> 'max_messages' IS NOT NULL
        AND definition ->> 'when_full' = 'refuse';
    IF NOT FOUND OR NOT ({schema}.is_owner() OR place.queue_id = ANY ({schema}.permitted('publish'))) THEN
        RETURN NULL;
    END IF;
    IF ({schema}.room_in(ARRAY[place.queue_id], ARRAY[place.most]))[1] > 0 THEN
        RETURN NULL;
    END IF;
    IF place.policy IN ('standard', 'unit_of_work') THEN
        fills := coalesce(jsonb_typeof(context -> place.grouped), 'null') NOT IN ('string', 'number')
            OR coalesce(context ->> place.numbered, '') !~ '^-?\d{{1,18}}$'
            OR EXISTS (
                SELECT FROM {schema}.types
                WHERE coalesce(
                    definition #>> ARRAY['properties', place.grouped, 'type'],
                    definition #>> ARRAY['properties', place.grouped]
                ) NOT IN ('string', 'long')
            )
            OR ({schema}.waited_for(
                place.queue_id, place.policy = 'unit_of_work', ARRAY[NULL::text],
                ARRAY[context ->> place.grouped], ARRAY[(context ->> place.numbered)::bigint]
            ))[1];
    END IF;
    RETURN CASE WHEN NOT fills THEN place.queue END;
END
$function$;
CREATE INDEX groups_faulted ON {schema}.known_groups (queue_id, group_key) WHERE flags & 16 <> 0;
CREATE INDEX aside_dead ON {schema}.aside (queue_id, entry_id) WHERE disposition = 'dead';

-- Does anything wait in the transmission queue for a service of that queue?
CREATE FUNCTION {schema}.is_awaited(of_queue integer) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    RETURN EXISTS (
        SELECT FROM {schema}.services AS place JOIN {schema}.transmission AS one ON one.to_service = place.service
        WHERE place.queue_id = of_queue
    );
END
$function$;
