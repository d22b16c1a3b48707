-- The schema of a message box as it is today: what the migrations lead to, to be read.
-- {schema} is the name of the box; a database may have several.

CREATE SCHEMA {schema};

-- Which migrations have been applied.
CREATE TABLE {schema}.migrations (
    number integer PRIMARY KEY,
    name text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);

-- Where messages are received. A row is locked by whoever takes the location's next numbers, until it commits, and
-- is never updated for it: an update a transaction would leave versions behind that a transaction held open somewhere
-- keeps alive, and every taker would walk them.
CREATE TABLE {schema}.locations (
    location text PRIMARY KEY CHECK (length(location) BETWEEN 1 AND 128),
    last_number bigint NOT NULL DEFAULT 9007199254740991 CHECK (last_number BETWEEN 1 AND 9007199254740991)
);

CREATE SEQUENCE {schema}.arrival_ids;

-- The order of commit over all locations.
CREATE SEQUENCE {schema}.stamps;

-- What a transaction in progress has published: one row for each call and location, with the queues that it has put
-- messages into. Numbered, and gone, at commit; so the table is empty to everybody else, and needs no log.
CREATE UNLOGGED TABLE {schema}.arrivals (
    transaction xid8 NOT NULL DEFAULT pg_current_xact_id(),
    arrival_id bigint NOT NULL DEFAULT nextval('{schema}.arrival_ids'),
    location text NOT NULL,
    count bigint NOT NULL CHECK (count > 0),
    queue_ids integer[] NOT NULL DEFAULT '{{}}',
    PRIMARY KEY (transaction, arrival_id)
);

-- Every number that was given: runs of `count` tickets that begin at (epoch, number), of an arrival or dispensed.
-- Rows are only added. The newest of a location says what is next. `stamp` is the order of commit.
CREATE TABLE {schema}.tickets (
    location text NOT NULL REFERENCES {schema}.locations,
    epoch bigint NOT NULL CHECK (epoch >= 0),
    number bigint NOT NULL CHECK (number >= 1),
    count bigint NOT NULL CHECK (count > 0),
    arrival_id bigint UNIQUE,
    stamp bigint NOT NULL DEFAULT nextval('{schema}.stamps'),
    PRIMARY KEY (location, epoch, number)
);

-- Bodies, once each. The ticket of a message is that of its arrival, `position` further. `destinations`: how many
-- queues got it; with the last of them it goes. `visible_at`: not handed out before.
CREATE TABLE {schema}.spool (
    arrival_id bigint NOT NULL,
    position bigint NOT NULL CHECK (position >= 0),
    message_id text NOT NULL,
    type text NOT NULL,
    content_type text,
    context jsonb NOT NULL,
    body bytea NOT NULL,
    received_at timestamptz NOT NULL DEFAULT now(),
    destinations integer NOT NULL DEFAULT 0,
    visible_at timestamptz,
    property_types jsonb,
    PRIMARY KEY (arrival_id, position)
);

-- Which messages were published lately, so that publishing one again changes nothing.
CREATE TABLE {schema}.message_ids (
    message_id text PRIMARY KEY,
    published_at timestamptz NOT NULL DEFAULT now()
);

-- What messages may look like: promoted properties, and how a body is checked; by the words of the declaration.
CREATE TABLE {schema}.types (
    type text COLLATE "C" PRIMARY KEY CHECK (length(type) BETWEEN 1 AND 128),
    definition jsonb NOT NULL
);

-- Named, ordered destinations. `owner`: the pipeline that a queue belongs to, if it is one's.
CREATE TABLE {schema}.queues (
    queue_id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue text COLLATE "C" NOT NULL UNIQUE CHECK (length(queue) BETWEEN 1 AND 128),
    definition jsonb NOT NULL,
    enabled boolean NOT NULL DEFAULT TRUE,
    owner text
);

-- Who wants which messages.
CREATE TABLE {schema}.subscriptions (
    subscription_id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    subscription text COLLATE "C" NOT NULL UNIQUE CHECK (length(subscription) BETWEEN 1 AND 128),
    queue_id integer NOT NULL REFERENCES {schema}.queues,
    definition jsonb NOT NULL,
    state text NOT NULL DEFAULT 'started' CHECK (state IN ('started', 'stopped', 'enlisted', 'unenlisted'))
);

-- A row for each change to the above. Whoever routes knows by the newest whether what it knows is still so.
CREATE TABLE {schema}.changes (
    version bigint PRIMARY KEY,
    changed_at timestamptz NOT NULL DEFAULT now(),
    changed_by text NOT NULL DEFAULT session_user,
    what text NOT NULL
);
INSERT INTO {schema}.changes (version, what) VALUES (0, 'the box was made');

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
    PRIMARY KEY (arrival_id, position)
);

CREATE SEQUENCE {schema}.entry_ids;

-- A message in a queue, until it is done or set aside. `arrived`: nobody has judged it yet; `held`; `queued`: released
-- and not handed out. Publishing inserts; only a turn, which has the group's lock, changes a row, once or twice.
CREATE TABLE {schema}.entries (
    entry_id bigint PRIMARY KEY DEFAULT nextval('{schema}.entry_ids'),
    queue_id integer NOT NULL,
    group_key text COLLATE "C" NOT NULL,
    status text COLLATE "C" NOT NULL DEFAULT 'arrived' CHECK (status IN ('arrived', 'held', 'queued')),
    -- Who is handed out next: microseconds of its arrival, less ten seconds for each level of priority above 5.
    rank bigint NOT NULL,
    arrival_id bigint NOT NULL,
    position bigint NOT NULL,
    sequence bigint,
    -- The size of its set that it tells.
    size bigint,
    priority smallint NOT NULL DEFAULT 5 CHECK (priority BETWEEN 1 AND 10),
    -- Not handed out before; its group waits.
    visible_at timestamptz,
    subscription_ids integer[] NOT NULL DEFAULT '{{}}',
    -- Which message of its group it was, in order of arrival; once it is judged.
    arrival bigint,
    ordinal bigint,
    late boolean NOT NULL DEFAULT FALSE,
    waits boolean NOT NULL DEFAULT FALSE,
    attempt integer NOT NULL DEFAULT 0
) WITH (fillfactor = 80);
CREATE INDEX entries_of_group ON {schema}.entries (queue_id, group_key, status, ordinal);
CREATE INDEX entries_arrived ON {schema}.entries (queue_id, rank) WHERE status = 'arrived';
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
    aside_at timestamptz NOT NULL DEFAULT now()
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
    PRIMARY KEY (done_at, entry_id)
) PARTITION BY RANGE (done_at);
CREATE TABLE {schema}.history_rest PARTITION OF {schema}.history DEFAULT;
CREATE INDEX history_of_group ON {schema}.history (queue_id, group_key);
CREATE INDEX history_of_message ON {schema}.history (arrival_id, position);

-- What is remembered of a group: the columns of the kernel's state, and when it wants to be looked at. Written by
-- turns alone, which have the group's lock; publishers touch nothing of it.
CREATE TABLE {schema}.groups (
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
CREATE INDEX groups_ready ON {schema}.groups (queue_id, ready_rank) WHERE ready_rank IS NOT NULL;
CREATE INDEX groups_due ON {schema}.groups (queue_id, due_at) WHERE due_at IS NOT NULL;

-- What an operator asked of a group that was locked: the next turn of the group obeys it before anything else. `rank`
-- makes a group that has nothing else to do one of those to look at.
CREATE TABLE {schema}.requests (
    request_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue_id integer NOT NULL,
    group_key text COLLATE "C" NOT NULL,
    action text NOT NULL CHECK (action IN ('suspend', 'resume')),
    rank bigint NOT NULL
);
CREATE INDEX requests_of_queue ON {schema}.requests (queue_id, rank);

-- Who waits for a message. Whoever brings one takes a row away at its commit, and calls.
CREATE UNLOGGED TABLE {schema}.waiters (
    waiter_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue_id integer NOT NULL,
    channel text NOT NULL,
    since timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX waiters_of_queue ON {schema}.waiters (queue_id);

-- Take a location's next numbers, and hold the location until the transaction ends. A location that isn't known
-- begins at 1. The numbers are `how_many` from (epoch, number) on; after the last number comes 1 of the next epoch.
CREATE FUNCTION {schema}.dispense(
    at_location text, how_many bigint, for_arrival bigint DEFAULT NULL,
    OUT epoch bigint, OUT number bigint, OUT last_number bigint
)
LANGUAGE plpgsql
-- A plan that is made while the table is small must not be one that reads all of it when it is large.
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $function$
#variable_conflict use_variable
DECLARE
    newest record;
BEGIN
    LOOP
        SELECT place.last_number INTO last_number
        FROM {schema}.locations AS place WHERE place.location = at_location FOR NO KEY UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO {schema}.locations (location) VALUES (at_location) ON CONFLICT DO NOTHING;
    END LOOP;
    -- A statement of its own: its snapshot is younger than the lock.
    SELECT run.epoch, run.number - 1 + run.count AS taken INTO newest
    FROM {schema}.tickets AS run WHERE run.location = at_location
    ORDER BY run.epoch DESC, run.number DESC LIMIT 1;
    epoch := coalesce(newest.epoch + newest.taken / last_number, 0);
    number := coalesce(newest.taken % last_number + 1, 1);
    INSERT INTO {schema}.tickets (location, epoch, number, count, arrival_id)
    VALUES (at_location, epoch, number, how_many, for_arrival);
END
$function$;

-- At commit: number what the transaction has published. The first of its arrivals numbers all of them, in the order
-- of locations, so that two transactions never wait for each other crosswise; the others find nothing left.
-- Whoever waits for one of the messages is called: as many as there are messages, each once.
CREATE FUNCTION {schema}.number_arrivals() RETURNS trigger
LANGUAGE plpgsql
SET enable_seqscan = off
AS $function$
DECLARE
    arrival record;
    woken integer[] := ARRAY[]::integer[];
    messages bigint := 0;
BEGIN
    FOR arrival IN
        WITH mine AS (
            DELETE FROM {schema}.arrivals WHERE transaction = pg_current_xact_id()
            RETURNING location, arrival_id, count, queue_ids
        )
        SELECT location, arrival_id, count, queue_ids FROM mine ORDER BY location, arrival_id
    LOOP
        PERFORM {schema}.dispense(arrival.location, arrival.count, arrival.arrival_id);
        woken := woken || arrival.queue_ids;
        messages := messages + arrival.count;
    END LOOP;
    IF cardinality(woken) > 0 THEN
        WITH called AS (
            DELETE FROM {schema}.waiters WHERE waiter_id IN (
                SELECT waiter_id FROM {schema}.waiters
                WHERE queue_id = ANY (woken) ORDER BY waiter_id LIMIT messages FOR UPDATE SKIP LOCKED
            ) RETURNING channel
        )
        SELECT count(pg_notify(channel, '')) INTO messages FROM called;
    END IF;
    RETURN NULL;
END
$function$;

CREATE CONSTRAINT TRIGGER number_at_commit AFTER INSERT ON {schema}.arrivals
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION {schema}.number_arrivals();

-- The lock of a group: one transaction at a time works on it, and publishers don't know it.
CREATE FUNCTION {schema}.group_lock(of_queue integer, of_group text) RETURNS bigint
LANGUAGE sql STABLE STRICT PARALLEL SAFE
RETURN hashtextextended(of_group, ('{schema}'::regnamespace::oid::bigint << 32) | of_queue);

-- Now, in microseconds.
CREATE FUNCTION {schema}.now_us() RETURNS bigint
LANGUAGE sql VOLATILE PARALLEL SAFE
RETURN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

-- Take messages in, with the queues that they were routed to. Answers FALSE, and takes nothing in, if the definitions
-- have changed since `known_version`. Messages that were published before are left out. The arrays of the first
-- two lines are as long as there are messages, the others as there are entries; `entry_places` counts messages from 1.
CREATE FUNCTION {schema}.take_in(
    known_version bigint, message_ids text[], types text[], locations text[], content_types text[],
    contexts text[], property_types text[], bodies bytea[], problems text[], visible_at timestamptz, delay interval,
    entry_places bigint[], entry_queues integer[], entry_groups text[], entry_sequences bigint[],
    entry_sizes bigint[], entry_priorities integer[], entry_problems text[], entry_subscriptions text[],
    entry_waits boolean[]
) RETURNS boolean
LANGUAGE plpgsql
AS $function$
DECLARE
    seen_from timestamptz := coalesce(visible_at, clock_timestamp() + delay);
BEGIN
    IF known_version <> (SELECT max(version) FROM {schema}.changes) THEN
        RETURN FALSE;
    END IF;
    WITH incoming AS MATERIALIZED (
        SELECT * FROM unnest(
            message_ids, types, locations, content_types, contexts, property_types, bodies, problems
        ) WITH ORDINALITY AS message (
            message_id, type, location, content_type, context, property_types, body, problem, place
        )
    ), fresh AS (
        -- In one order for all publishers, so that two of them never wait for each other crosswise.
        INSERT INTO {schema}.message_ids (message_id)
        SELECT message_id FROM incoming ORDER BY message_id
        ON CONFLICT DO NOTHING
        RETURNING message_id
    ), numbered AS MATERIALIZED (
        SELECT place, location, row_number() OVER (PARTITION BY location ORDER BY place) - 1 AS position
        FROM incoming JOIN fresh USING (message_id)
    ), wanted AS MATERIALIZED (
        SELECT * FROM unnest(
            entry_places, entry_queues, entry_groups, entry_sequences, entry_sizes, entry_priorities, entry_problems,
            entry_subscriptions, entry_waits
        ) AS entry (place, queue_id, group_key, sequence, size, priority, problem, subscription_ids, waits)
    ), arrived AS (
        INSERT INTO {schema}.arrivals (location, count, queue_ids)
        SELECT location, count(*), ARRAY(SELECT DISTINCT queue_id FROM wanted) FROM numbered GROUP BY location
        RETURNING arrival_id, location
    ), placed AS MATERIALIZED (
        SELECT place, arrival_id, position FROM numbered JOIN arrived USING (location)
    ), refused AS (
        INSERT INTO {schema}.aside (
            entry_id, queue_id, group_key, disposition, reason, arrival_id, position, sequence, size, priority,
            subscription_ids
        )
        SELECT
            nextval('{schema}.entry_ids'), queue_id, group_key, 'invalid', problem, arrival_id, position, sequence,
            size, priority, subscription_ids::integer[]
        FROM wanted JOIN placed USING (place) WHERE problem IS NOT NULL
    ), entered AS (
        INSERT INTO {schema}.entries (
            queue_id, group_key, rank, arrival_id, position, sequence, size, priority, visible_at, subscription_ids
        )
        SELECT
            entry.queue_id, entry.group_key, {schema}.now_us() - (entry.priority - 5) * 10000000, placed.arrival_id,
            placed.position, entry.sequence, entry.size, entry.priority,
            CASE WHEN entry.waits THEN 'infinity' ELSE seen_from END, entry.subscription_ids::integer[]
        FROM wanted AS entry JOIN placed USING (place)
        WHERE entry.problem IS NULL
    ), unwanted AS (
        INSERT INTO {schema}.unrouted (arrival_id, position, problem)
        SELECT arrival_id, position, problem FROM placed JOIN incoming USING (place)
        WHERE NOT EXISTS (SELECT FROM wanted WHERE wanted.place = placed.place)
    )
    INSERT INTO {schema}.spool (
        arrival_id, position, message_id, type, content_type, context, property_types, body, destinations, visible_at
    )
    SELECT
        arrival_id, position, message_id, type, content_type, context::jsonb, message.property_types::jsonb, body,
        (SELECT count(*) FROM wanted WHERE wanted.place = placed.place), seen_from
    FROM placed JOIN incoming AS message USING (place);
    RETURN TRUE;
END
$function$;

-- Is there something for a turn to do in a group?
CREATE FUNCTION {schema}.has_work(of_queue integer, of_group text, now_us bigint) RETURNS boolean
LANGUAGE plpgsql STABLE
AS $function$
BEGIN
    RETURN EXISTS (
        SELECT FROM {schema}.entries
        WHERE queue_id = of_queue AND group_key = of_group AND status = 'arrived'
    ) OR EXISTS (
        SELECT FROM {schema}.groups
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
    IF {schema}.has_work(of_queue, of_group, now_us) THEN
        RETURN TRUE;
    END IF;
    RAISE EXCEPTION 'nothing to do' USING ERRCODE = 'SQ001';
EXCEPTION WHEN SQLSTATE 'SQ001' THEN
    RETURN FALSE;
END
$function$;

-- Lock the next groups of a queue that are ready, at most `how_many`: those of lowest rank first.
CREATE FUNCTION {schema}.lock_next(of_queue integer, how_many integer, now_us bigint) RETURNS text[]
LANGUAGE plpgsql
-- Each part is read in the order of its index, and no further than needed.
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
AS $function$
DECLARE
    candidate text;
    tried text[] := ARRAY[]::text[];
    taken text[] := ARRAY[]::text[];
BEGIN
    FOR candidate IN
        (
            SELECT group_key, ready_rank AS rank FROM {schema}.groups
            WHERE queue_id = of_queue AND ready_rank IS NOT NULL
        ) UNION ALL (
            SELECT group_key, rank FROM {schema}.entries
            WHERE queue_id = of_queue AND status = 'arrived'
        ) UNION ALL (
            SELECT group_key, due_at FROM {schema}.groups
            WHERE queue_id = of_queue AND due_at <= now_us
        ) UNION ALL (
            SELECT group_key, rank FROM {schema}.requests WHERE queue_id = of_queue
        )
        ORDER BY rank LIMIT 1000
    LOOP
        CONTINUE WHEN candidate = ANY (tried);
        tried := tried || candidate;
        IF {schema}.lock_group(of_queue, candidate, now_us) THEN
            taken := taken || candidate;
            IF cardinality(taken) >= how_many THEN
                RETURN taken;
            END IF;
        END IF;
    END LOOP;
    IF cardinality(taken) > 0 OR cardinality(tried) = 0 THEN
        RETURN taken;
    END IF;
    -- All of these were locked. Others may be behind them: each group that has something is looked at once.
    FOR candidate IN
        WITH RECURSIVE each_group AS (
            (
                SELECT group_key FROM {schema}.entries
                WHERE queue_id = of_queue AND status <> 'held'
                ORDER BY group_key LIMIT 1
            ) UNION ALL (
                SELECT (
                    SELECT entry.group_key FROM {schema}.entries AS entry
                    WHERE entry.queue_id = of_queue AND entry.group_key > each_group.group_key
                    ORDER BY entry.group_key LIMIT 1
                ) FROM each_group WHERE each_group.group_key IS NOT NULL
            )
        )
        SELECT group_key FROM each_group WHERE group_key IS NOT NULL
    LOOP
        CONTINUE WHEN candidate = ANY (tried);
        IF {schema}.lock_group(of_queue, candidate, now_us) THEN
            RETURN ARRAY[candidate];
        END IF;
    END LOOP;
    RETURN taken;
END
$function$;

-- Write down what a turn decided. The first arrays: a value for each of its groups; then the entries that stay (held,
-- or released and not handed out), those that are set aside, and the requests that it has obeyed. All groups are
-- locked by the caller.
CREATE FUNCTION {schema}.decide(
    of_queue integer, group_keys text[], states bigint[], skipped text[], arrivals bigint[], decided text[],
    due_ats bigint[], ready_ranks bigint[],
    kept_ids bigint[], kept_statuses text[], kept_arrivals bigint[], kept_ordinals bigint[], kept_late boolean[],
    kept_waits boolean[],
    aside_ids bigint[], aside_dispositions text[], aside_reasons text[], aside_ordinals bigint[], obeyed_ids bigint[]
) RETURNS void
LANGUAGE plpgsql
AS $function$
BEGIN
    INSERT INTO {schema}.groups AS known (
        queue_id, group_key, flags, first, next, mark, last, ordinal, since, reports, clock, skipped, arrivals,
        decided, due_at, ready_rank
    )
    SELECT
        of_queue, new.group_key, states[at + 1], states[at + 2], states[at + 3], states[at + 4], states[at + 5],
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
            subscription_ids, ordinal, attempt
        )
        SELECT
            entry_id, queue_id, group_key, disposition, reason, arrival_id, position, sequence, size, priority,
            subscription_ids, left_as, attempt
        FROM gone;
    END IF;
    IF cardinality(obeyed_ids) > 0 THEN
        DELETE FROM {schema}.requests WHERE request_id = ANY (obeyed_ids);
    END IF;
END
$function$;

-- What was handed out is done: it goes, and with its last reference the message; or both are kept.
CREATE FUNCTION {schema}.complete(
    of_queue integer, entry_ids bigint[], ordinals bigint[], lates boolean[], of_incarnation integer, keep boolean
) RETURNS void
LANGUAGE plpgsql
AS $function$
BEGIN
    IF keep THEN
        WITH gone AS (
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
        FROM gone;
    ELSE
        WITH gone AS (
            DELETE FROM {schema}.entries WHERE entry_id = ANY (entry_ids) RETURNING arrival_id, position
        )
        DELETE FROM {schema}.spool AS stored USING gone
        WHERE stored.arrival_id = gone.arrival_id AND stored.position = gone.position AND stored.destinations = 1;
    END IF;
END
$function$;

-- What was handed out was not worked on: it is queued again, and its group is ready.
CREATE FUNCTION {schema}.put_back(
    of_queue integer, of_group text, entry_ids bigint[], ordinals bigint[], lates boolean[]
) RETURNS void
LANGUAGE plpgsql
AS $function$
BEGIN
    UPDATE {schema}.entries AS entry SET status = 'queued', ordinal = handed.ordinal, late = handed.late
    FROM unnest(entry_ids, ordinals, lates) AS handed (entry_id, ordinal, late)
    WHERE entry.entry_id = handed.entry_id;
    UPDATE {schema}.groups SET ready_rank = (SELECT min(rank) FROM {schema}.entries WHERE entry_id = ANY (entry_ids))
    WHERE queue_id = of_queue AND group_key = of_group;
END
$function$;

-- What the dispenser of each location gives next.
CREATE VIEW {schema}.dispensers AS
SELECT
    place.location,
    coalesce(newest.epoch + newest.taken / place.last_number, 0) AS epoch,
    coalesce(newest.taken % place.last_number + 1, 1) AS next_number,
    place.last_number
FROM {schema}.locations AS place
LEFT JOIN LATERAL (
    SELECT run.epoch, run.number - 1 + run.count AS taken
    FROM {schema}.tickets AS run WHERE run.location = place.location
    ORDER BY run.epoch DESC, run.number DESC LIMIT 1
) AS newest ON TRUE;

-- The messages that the box has, each with its ticket. Reads without locks.
CREATE VIEW {schema}.messages AS
SELECT
    stored.message_id,
    stored.type,
    run.location,
    run.epoch + (run.number - 1 + stored.position) / place.last_number AS epoch,
    (run.number - 1 + stored.position) % place.last_number + 1 AS number,
    stored.content_type,
    stored.context,
    stored.body,
    stored.received_at
FROM {schema}.spool AS stored
JOIN {schema}.tickets AS run USING (arrival_id)
JOIN {schema}.locations AS place USING (location);
