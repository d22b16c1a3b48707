-- The schema of a message box as it is today: what the migrations lead to, to be read.
-- {schema} is the name of the box; a database may have several.

CREATE SCHEMA {schema};

-- Which migrations have been applied.
CREATE TABLE {schema}.migrations (
    number integer PRIMARY KEY,
    name text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);

-- Where messages are received. Whoever takes a location's next numbers has its advisory lock until he commits, and
-- touches no row for it: an update a transaction would leave versions behind that a transaction held open somewhere
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
    -- Who published it through SQL, and the queues that he may publish to (NULL: all); NULL where it is routed already.
    publisher text,
    permitted integer[],
    PRIMARY KEY (transaction, arrival_id)
);

-- Every number that was given: runs of `count` tickets that begin at (epoch, number), of an arrival or dispensed.
-- Rows are only added, by `dispense` alone, which reads the location under its lock: so there is no foreign key, which
-- would cost each message another look and a lock on one row. The newest of a location says what is next. `stamp` is
-- the order of commit.
CREATE TABLE {schema}.tickets (
    location text NOT NULL,
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
    -- How many parts it has; NULL: none.
    parts integer CHECK (parts > 0),
    PRIMARY KEY (arrival_id, position)
);

-- What messages consist of beside their bodies.
CREATE TABLE {schema}.message_parts (
    arrival_id bigint NOT NULL,
    position bigint NOT NULL,
    number bigint NOT NULL,
    name text NOT NULL CHECK (length(name) BETWEEN 1 AND 256),
    content_type text,
    body bytea NOT NULL,
    PRIMARY KEY (arrival_id, position, number)
);

-- Parts go with their message, whoever deletes it. Messages without parts pay nothing for that.
CREATE FUNCTION {schema}.drop_message_parts() RETURNS trigger
LANGUAGE plpgsql
SET enable_seqscan = off
AS $function$
BEGIN
    DELETE FROM {schema}.message_parts WHERE arrival_id = OLD.arrival_id AND position = OLD.position;
    RETURN NULL;
END
$function$;

CREATE TRIGGER drop_message_parts AFTER DELETE ON {schema}.spool
FOR EACH ROW WHEN (OLD.parts IS NOT NULL) EXECUTE FUNCTION {schema}.drop_message_parts();

-- Which messages were published lately, so that publishing one again changes nothing.
CREATE TABLE {schema}.message_ids (
    message_id text PRIMARY KEY,
    published_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX message_ids_by_age ON {schema}.message_ids (published_at);

-- What messages may look like: promoted properties, and how a body is checked; by the words of the declaration.
CREATE TABLE {schema}.types (
    type text COLLATE "C" PRIMARY KEY CHECK (length(type) BETWEEN 1 AND 128),
    definition jsonb NOT NULL
);

-- Named, ordered destinations. `owner`: the pipeline that a queue belongs to, if it is one's. `incarnation`: that of a
-- group which isn't known; higher than any of a group that was forgotten and left no row.
CREATE TABLE {schema}.queues (
    queue_id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue text COLLATE "C" NOT NULL UNIQUE CHECK (length(queue) BETWEEN 1 AND 128),
    definition jsonb NOT NULL,
    enabled boolean NOT NULL DEFAULT TRUE,
    owner text,
    incarnation integer NOT NULL DEFAULT 0,
    -- Whether readers are started, where its definition says what they do.
    activated boolean NOT NULL DEFAULT TRUE
);

-- Who wants which messages.
CREATE TABLE {schema}.subscriptions (
    subscription_id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    subscription text COLLATE "C" NOT NULL UNIQUE CHECK (length(subscription) BETWEEN 1 AND 128),
    queue_id integer NOT NULL REFERENCES {schema}.queues,
    definition jsonb NOT NULL,
    state text NOT NULL DEFAULT 'started' CHECK (state IN ('started', 'stopped', 'enlisted', 'unenlisted'))
);
CREATE INDEX subscriptions_not_started ON {schema}.subscriptions (queue_id) WHERE state <> 'started';

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
    -- That of its ticket: nothing that came later is judged before.
    stamp bigint NOT NULL,
    publisher text NOT NULL,
    permitted integer[],
    PRIMARY KEY (arrival_id, position)
);

CREATE SEQUENCE {schema}.entry_ids;

-- A message in a queue, until it is done or set aside. `arrived`: nobody has judged it yet; `held`; `queued`: released
-- and not handed out. Publishing inserts; only a turn, which has the group's lock, changes a row, once or twice.
CREATE TABLE {schema}.entries (
    entry_id bigint PRIMARY KEY DEFAULT nextval('{schema}.entry_ids'),
    queue_id integer NOT NULL,
    group_key text COLLATE "C" NOT NULL,
    status text COLLATE "C" NOT NULL DEFAULT 'arrived' CHECK (status IN ('arrived', 'held', 'queued', 'in_hand')),
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
    attempt integer NOT NULL DEFAULT 0,
    -- In which batch a pipeline has it in hand.
    batch bigint,
    -- Of a dialog: it goes before what is queued in its group.
    ahead boolean NOT NULL DEFAULT FALSE
) WITH (fillfactor = 80);
CREATE INDEX entries_of_group ON {schema}.entries (queue_id, group_key, status, ordinal);
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

-- The lock of a location's numbers.
CREATE FUNCTION {schema}.location_lock(of_location text) RETURNS bigint
LANGUAGE sql STABLE STRICT PARALLEL SAFE
RETURN hashtextextended(of_location, '{schema}'::regnamespace::oid::bigint << 32);

-- Take a location's next numbers, and hold the location until the transaction ends. A location that isn't known
-- begins at 1. The numbers are `how_many` from (epoch, number) on; after the last number comes 1 of the next epoch.
CREATE FUNCTION {schema}.dispense(
    at_location text, how_many bigint, for_arrival bigint DEFAULT NULL, OUT epoch bigint, OUT number bigint
)
LANGUAGE plpgsql
-- A plan that is made while the table is small must not be one that reads all of it when it is large.
SET enable_seqscan = off
SET enable_bitmapscan = off
SET plan_cache_mode = force_generic_plan
AS $function$
#variable_conflict use_column
BEGIN
    PERFORM pg_advisory_xact_lock({schema}.location_lock(at_location));
    LOOP
        -- A statement of its own: its snapshot is younger than the lock.
        INSERT INTO {schema}.tickets AS given (location, epoch, number, count, arrival_id)
        SELECT
            place.location, coalesce(newest.epoch + newest.taken / place.last_number, 0),
            coalesce(newest.taken % place.last_number + 1, 1), how_many, for_arrival
        FROM {schema}.locations AS place LEFT JOIN LATERAL (
            SELECT run.epoch, run.number - 1 + run.count AS taken
            FROM {schema}.tickets AS run WHERE run.location = at_location
            ORDER BY run.epoch DESC, run.number DESC LIMIT 1
        ) AS newest ON TRUE
        WHERE place.location = at_location
        RETURNING given.epoch, given.number INTO epoch, number;
        EXIT WHEN FOUND;
        INSERT INTO {schema}.locations (location) VALUES (at_location) ON CONFLICT DO NOTHING;
    END LOOP;
END
$function$;

-- At commit: number what the transaction has published. The first of its arrivals numbers all of them, in the order
-- of locations, so that two transactions never wait for each other crosswise; the others find nothing left.
-- Whoever waits for one of the messages is called: as many as there are messages, each once.
CREATE FUNCTION {schema}.number_arrivals() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan
AS $function$
DECLARE
    arrival record;
    woken integer[] := ARRAY[]::integer[];
    messages bigint := 0;
BEGIN
    FOR arrival IN
        WITH mine AS (
            DELETE FROM {schema}.arrivals WHERE transaction = pg_current_xact_id()
            RETURNING location, arrival_id, count, queue_ids, publisher, permitted
        )
        SELECT * FROM mine ORDER BY location, arrival_id
    LOOP
        PERFORM {schema}.dispense(arrival.location, arrival.count, arrival.arrival_id);
        IF arrival.publisher IS NOT NULL THEN
            INSERT INTO {schema}.to_route (arrival_id, position, stamp, publisher, permitted)
            SELECT run.arrival_id, 0, run.stamp, arrival.publisher, arrival.permitted
            FROM {schema}.tickets AS run WHERE run.arrival_id = arrival.arrival_id;
        END IF;
        woken := woken || arrival.queue_ids;
        messages := messages + arrival.count;
    END LOOP;
    IF cardinality(woken) > 0 THEN
        PERFORM {schema}.call_waiters(woken, messages);
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

-- What is defined now, and what the caller routes by, stays in use until its transaction ends: who takes it away waits
-- for that. A transaction that keeps its snapshot fails where something was taken away, or stopped, that it still sees.
CREATE FUNCTION {schema}.hold_definitions() RETURNS void
LANGUAGE plpgsql
AS $function$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(hashtextextended('seriatim publishers', '{schema}'::regnamespace::oid::bigint));
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM FROM {schema}.queues FOR SHARE;
        PERFORM FROM {schema}.subscriptions FOR SHARE;
    END IF;
END
$function$;

-- Put messages of the spool, at the places (arrival_ids, positions), into queues. The first arrays are as long as there
-- are messages (an arrival of 0: leave it out), the others as there are entries; `entry_places` counts messages from 1.
-- A message without any entry is unrouted; `problems` says where it isn't what its type says.
CREATE FUNCTION {schema}.enter(
    arrival_ids bigint[], positions bigint[], destinations integer[], problems text[], seen_from timestamptz,
    entry_places bigint[], entry_queues integer[], entry_groups text[], entry_sequences bigint[],
    entry_sizes bigint[], entry_priorities integer[], entry_problems text[], entry_subscriptions text[],
    entry_waits boolean[]
) RETURNS void
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
AS $function$
DECLARE
    moment_us bigint := {schema}.now_us();
BEGIN
    INSERT INTO {schema}.entries (
        queue_id, group_key, rank, arrival_id, position, sequence, size, priority, visible_at, subscription_ids
    )
    SELECT
        queue_id, group_key, moment_us - (priority - 5) * 10000000, arrival_ids[place], positions[place], sequence,
        size, priority, seen_from, subscription_ids::integer[]
    FROM unnest(
        entry_places, entry_queues, entry_groups, entry_sequences, entry_sizes, entry_priorities, entry_problems,
        entry_subscriptions, entry_waits
    ) AS entry (place, queue_id, group_key, sequence, size, priority, problem, subscription_ids, waits)
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

-- Take messages in, with the queues that they were routed to. Answers FALSE, and takes nothing in, if the definitions
-- have changed since `known_version`. Messages that were published before are left out. The arrays are those of
-- `enter`; `destinations` says how many queues get each message. They are ordered at once, and handed out from
-- `visible_at`, or after the `delay`. The last arrays are their parts; `part_counts` is NULL where none has any.
-- `by_itself`: the commit follows at once.
CREATE FUNCTION {schema}.take_in(
    known_version bigint, message_ids text[], types text[], locations text[], content_types text[],
    contexts text[], property_types text[], bodies bytea[], destinations integer[], problems text[],
    visible_at timestamptz, delay interval,
    entry_places bigint[], entry_queues integer[], entry_groups text[], entry_sequences bigint[],
    entry_sizes bigint[], entry_priorities integer[], entry_problems text[], entry_subscriptions text[],
    entry_waits boolean[],
    part_counts integer[], part_places bigint[], part_names text[], part_content_types text[], part_bodies bytea[],
    by_itself boolean
) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
AS $function$
DECLARE
    seen_from timestamptz := coalesce(visible_at, clock_timestamp() + delay);
    arrival_ids bigint[];
    positions bigint[] := ARRAY[0];
BEGIN
    PERFORM {schema}.permit('publish', entry_queues);
    PERFORM {schema}.hold_definitions();
    IF known_version <> (SELECT max(version) FROM {schema}.changes) THEN
        RETURN FALSE;
    END IF;
    IF cardinality(message_ids) = 1 THEN
        -- What follows for many, without the joins and sorts.
        INSERT INTO {schema}.message_ids (message_id) VALUES (message_ids[1]) ON CONFLICT DO NOTHING;
        IF NOT FOUND THEN
            RETURN TRUE;
        END IF;
        IF by_itself THEN
            arrival_ids := ARRAY[nextval('{schema}.arrival_ids')];
        ELSE
            INSERT INTO {schema}.arrivals (location, count, queue_ids)
            VALUES (locations[1], 1, ARRAY(SELECT DISTINCT unnest(entry_queues)))
            RETURNING ARRAY[arrival_id] INTO arrival_ids;
        END IF;
    ELSE
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
    END IF;
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
    PERFORM {schema}.enter(
        arrival_ids, positions, destinations, problems, seen_from, entry_places, entry_queues, entry_groups,
        entry_sequences, entry_sizes, entry_priorities, entry_problems, entry_subscriptions, entry_waits
    );
    IF by_itself AND cardinality(message_ids) = 1 THEN
        -- The commit comes next: what would be done there is done here, without a row that says so.
        PERFORM {schema}.dispense(locations[1], 1, arrival_ids[1]);
        PERFORM {schema}.call_waiters(ARRAY(SELECT DISTINCT unnest(entry_queues)), 1);
    END IF;
    RETURN TRUE;
END
$function$;

-- The parts of the messages of some entries.
CREATE FUNCTION {schema}.parts_of(of_queue integer, of_entries bigint[])
RETURNS TABLE (entry_id bigint, name text, content_type text, body bytea)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    PERFORM {schema}.permit_entries(of_queue, of_entries);
    RETURN QUERY
    SELECT entry.entry_id, part.name, part.content_type, part.body
    FROM {schema}.entries AS entry JOIN {schema}.message_parts AS part USING (arrival_id, position)
    WHERE entry.queue_id = of_queue AND entry.entry_id = ANY (of_entries)
    ORDER BY entry.entry_id, part.number;
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
-- (`whole`: anything of their set) is there and waits for them; and those that were published before, which add nothing.
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
            SELECT FROM {schema}.groups AS known
            WHERE known.queue_id = of_queue AND known.group_key = asked.group_key AND known.next > asked.sequence
                AND NOT whole
        )
        FROM unnest(ids, group_keys, sequences) WITH ORDINALITY AS asked (message_id, group_key, sequence, place)
        ORDER BY place
    );
END
$function$;

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
        SELECT FROM {schema}.entries AS entry JOIN {schema}.tickets AS run USING (arrival_id)
        WHERE entry.queue_id = of_queue AND entry.group_key = of_group AND entry.status = 'arrived'
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

-- Lock the next groups of a queue that have something to do, at most `how_many`: those of lowest rank first. The four
-- indexes are merged (each is asked for its order, or all would be read and sorted), and read no further than needed.
CREATE FUNCTION {schema}.lock_next(of_queue integer, how_many integer, now_us bigint) RETURNS text[]
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
                SELECT group_key, ready_rank AS rank FROM {schema}.groups
                WHERE queue_id = of_queue AND ready_rank IS NOT NULL ORDER BY ready_rank
            ) UNION ALL (
                SELECT group_key, rank FROM {schema}.entries
                WHERE queue_id = of_queue AND status = 'arrived' ORDER BY rank
            ) UNION ALL (
                SELECT group_key, due_at FROM {schema}.groups
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
    RETURN taken;
END
$function$;

-- Lock a group that has something to hand out.
CREATE FUNCTION {schema}.lock_ready(of_queue integer, of_group text) RETURNS boolean
LANGUAGE plpgsql
AS $function$
BEGIN
    IF NOT pg_try_advisory_xact_lock({schema}.group_lock(of_queue, of_group)) THEN
        RETURN FALSE;
    END IF;
    -- A request may have come before the lock, and is obeyed by a turn that judges.
    PERFORM FROM {schema}.groups
    WHERE queue_id = of_queue AND group_key = of_group AND ready_rank IS NOT NULL
        AND NOT EXISTS (SELECT FROM {schema}.requests WHERE queue_id = of_queue AND group_key = of_group)
        AND NOT EXISTS (SELECT FROM {schema}.leases WHERE queue_id = of_queue AND group_key = of_group);
    IF FOUND THEN
        RETURN TRUE;
    END IF;
    RAISE EXCEPTION 'nothing to hand out' USING ERRCODE = 'SQ001';
EXCEPTION WHEN SQLSTATE 'SQ001' THEN
    RETURN FALSE;
END
$function$;

-- Hand out what was released before, of the group of lowest rank that has some, and lock that group: no rule has to be
-- asked. Answers with no row where there is none, where a group that has something to judge has waited longer, where an
-- operator has asked something, or a subscription isn't started: then it is `take`'s turn.
CREATE FUNCTION {schema}.hand_out(of_queue integer, named text, at_most integer, at_us bigint)
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
    candidate record;
    found text;
    of_incarnation integer;
    line record;
    tries integer := 0;
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    SELECT
        EXISTS (SELECT FROM {schema}.requests AS request WHERE request.queue_id = of_queue) OR EXISTS (
            SELECT FROM {schema}.subscriptions AS one WHERE one.queue_id = of_queue AND one.state <> 'started'
        ) AS judges,
        (
            SELECT entry.rank FROM {schema}.entries AS entry
            WHERE entry.queue_id = of_queue AND entry.status = 'arrived' AND named IS NULL ORDER BY entry.rank LIMIT 1
        ) AS oldest,
        (SELECT max(change.version) FROM {schema}.changes AS change) AS version
    INTO around;
    IF around.judges THEN
        RETURN;
    END IF;
    FOR candidate IN
        SELECT known.group_key AS key, known.ready_rank AS rank FROM {schema}.groups AS known
        WHERE known.queue_id = of_queue AND known.ready_rank IS NOT NULL AND (named IS NULL OR known.group_key = named)
        ORDER BY known.ready_rank
    LOOP
        tries := tries + 1;
        EXIT WHEN candidate.rank > around.oldest OR tries > 1000;
        IF {schema}.lock_ready(of_queue, candidate.key) THEN
            found := candidate.key;
            EXIT;
        END IF;
    END LOOP;
    IF found IS NULL THEN
        RETURN;
    END IF;
    -- How much of its line may leave: what may not be seen yet keeps what is behind it. `following`: the first that stays.
    SELECT
        count(*) AS waiting,
        max(one.ordinal) FILTER (WHERE one.seen AND one.place <= at_most) AS cut,
        min(one.ordinal) FILTER (WHERE NOT one.seen OR one.place > at_most) AS following
    INTO line
    FROM (
        SELECT
            entry.ordinal, row_number() OVER by_ordinal AS place,
            bool_and(entry.visible_at IS NULL OR entry.visible_at <= moment) OVER by_ordinal AS seen
        FROM {schema}.entries AS entry
        WHERE entry.queue_id = of_queue AND entry.group_key = found AND entry.status = 'queued'
        WINDOW by_ordinal AS (ORDER BY entry.ordinal ROWS UNBOUNDED PRECEDING)
        ORDER BY entry.ordinal LIMIT at_most + 1::bigint
    ) AS one;
    -- Where it has less than is asked for, and more has arrived, that is judged first; the group stays locked for it.
    IF line.waiting < at_most AND EXISTS (
        SELECT FROM {schema}.entries AS one
        WHERE one.queue_id = of_queue AND one.group_key = found AND one.status = 'arrived'
    ) THEN
        RETURN;
    END IF;
    UPDATE {schema}.groups AS known SET
        ready_rank = CASE WHEN following.hidden THEN NULL ELSE following.rank END,
        due_at = CASE WHEN following.hidden AND following.visible_at < 'infinity'
            THEN least(known.due_at, (extract(epoch FROM following.visible_at) * 1000000)::bigint)
            ELSE known.due_at END,
        touched_at = now()
    FROM (SELECT) AS once LEFT JOIN (
        SELECT one.rank, one.visible_at, one.visible_at > moment AS hidden
        FROM {schema}.entries AS one
        WHERE one.queue_id = of_queue AND one.group_key = found AND one.status = 'queued'
            AND one.ordinal = line.following
    ) AS following ON TRUE
    WHERE known.queue_id = of_queue AND known.group_key = found
    RETURNING known.incarnation INTO of_incarnation;
    RETURN QUERY
    SELECT
        around.version, current_setting('transaction_isolation'), found, of_incarnation,
        entry.entry_id, entry.sequence, entry.ordinal, entry.late,
        stored.message_id, stored.type, stored.content_type, stored.context::text, stored.property_types, stored.body,
        stored.received_at, run.location,
        run.epoch + (run.number - 1 + stored.position) / place.last_number,
        (run.number - 1 + stored.position) % place.last_number + 1,
        entry.attempt, entry.priority, entry.subscription_ids, stored.parts
    FROM {schema}.entries AS entry
    JOIN {schema}.spool AS stored USING (arrival_id, position)
    JOIN {schema}.tickets AS run USING (arrival_id)
    JOIN {schema}.locations AS place ON place.location = run.location
    WHERE entry.queue_id = of_queue AND entry.group_key = found AND entry.status = 'queued'
        AND entry.ordinal <= line.cut
    ORDER BY entry.ordinal;
END
$function$;

-- Write down what a turn decided, and give the messages that it hands out. The first arrays: a value for each of its
-- groups; then the entries that stay (held, or released and not handed out), those that are set aside, and the requests
-- that it has obeyed. All groups are locked by the caller.
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

-- What was handed out was not worked on: it is queued again, and its group is ready.
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
    PERFORM {schema}.permit_entries(of_queue, entry_ids);
    UPDATE {schema}.entries AS entry SET status = 'queued', ordinal = handed.ordinal, late = handed.late
    FROM unnest(entry_ids, ordinals, lates) AS handed (entry_id, ordinal, late)
    WHERE entry.entry_id = handed.entry_id;
    UPDATE {schema}.groups SET ready_rank = (SELECT min(rank) FROM {schema}.entries WHERE entry_id = ANY (entry_ids))
    WHERE queue_id = of_queue AND group_key = of_group;
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
        count(DISTINCT (message.arrival_id, message.position)) AS messages,
        min(run.epoch::numeric * start.last_number + run.number - 1 + message.position) AS oldest
    FROM (
        SELECT arrival_id, position FROM {schema}.entries
        UNION ALL
        SELECT arrival_id, position FROM {schema}.to_route
    ) AS message
    JOIN {schema}.tickets AS run USING (arrival_id)
    JOIN {schema}.locations AS start USING (location)
    GROUP BY run.location
) AS waiting ON waiting.location = place.location
CROSS JOIN LATERAL (
    SELECT coalesce(
        waiting.oldest, newest.epoch::numeric * place.last_number + newest.taken, 0
    ) - 1 AS sent
) AS mark;

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
    stored.received_at,
    coalesce(stored.parts, 0) AS parts
FROM {schema}.spool AS stored
JOIN {schema}.tickets AS run USING (arrival_id)
JOIN {schema}.locations AS place USING (location);

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

-- The groups as they stand, read without locks. `state`: what a group shows; the rules are those of kernel/states.py.
-- `arrived`: not judged yet, so not in the state either; `in_hand`: of a pipeline. `hole_since`, `due_at`: NULL where nothing is open, or due.
-- `next`, `last_released` and `hole_through` are sequences as numbers: microseconds where a queue goes by time.
CREATE VIEW {schema}.group_states AS
WITH locked AS MATERIALIZED (
    SELECT (classid::bigint << 32) | objid::bigint AS lock FROM pg_locks
    WHERE locktype = 'advisory' AND objsubid = 1 AND granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    UNION ALL
    SELECT {schema}.group_lock(queue_id, group_key) FROM {schema}.leases WHERE group_key IS NOT NULL
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
    WHERE log.queue = place.queue AND log.group_key = known.group_key
        AND action IN ('suspend', 'resume', 'skip_message')
    ORDER BY operation_id DESC LIMIT 1
) AS said ON TRUE
WHERE policy.name <> 'unordered';

-- What holds for the whole box; one row. `message_ids_for`: how long a message that is published again is recognised.
-- `swept_through`: where the sweep over the tickets was left. `faults_for`: how long faults are kept.
CREATE TABLE {schema}.keeping (
    single boolean PRIMARY KEY DEFAULT TRUE CHECK (single),
    message_ids_for interval NOT NULL DEFAULT '7 days' CHECK (message_ids_for > '0'),
    swept_through bigint NOT NULL DEFAULT 0,
    faults_for interval NOT NULL DEFAULT '30 days' CHECK (faults_for >= '0')
);
INSERT INTO {schema}.keeping DEFAULT VALUES;

-- References to messages that are gone: each may have been the last one of its message. Written by whoever takes a
-- reference away, in the same transaction; read by the clean-up, which then looks whether another one is left. So it
-- never has to look at the whole spool, and whoever completes needs no lock on the message that others refer to, too.
CREATE TABLE {schema}.dropped (
    drop_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    arrival_id bigint NOT NULL,
    position bigint NOT NULL
);

-- Whoever deletes rows of these tables leaves a note of it, and need not know.
CREATE FUNCTION {schema}.note_dropped() RETURNS trigger
LANGUAGE plpgsql
AS $function$
BEGIN
    INSERT INTO {schema}.dropped (arrival_id, position) SELECT arrival_id, position FROM gone;
    RETURN NULL;
END
$function$;

CREATE TRIGGER note_dropped AFTER DELETE ON {schema}.aside
REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION {schema}.note_dropped();

CREATE TRIGGER note_dropped AFTER DELETE ON {schema}.unrouted
REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION {schema}.note_dropped();

CREATE TRIGGER note_dropped AFTER DELETE ON {schema}.to_route
REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION {schema}.note_dropped();

CREATE TRIGGER note_dropped AFTER DELETE ON {schema}.history
REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION {schema}.note_dropped();

-- Make the part of the history for a day (UTC). Answers FALSE where it is there already, or where rows of that day are
-- in the rest, which then stay there.
CREATE FUNCTION {schema}.add_history_day(of_day date) RETURNS boolean
LANGUAGE plpgsql
AS $function$
DECLARE
    part text := 'history_' || to_char(of_day, 'YYYYMMDD');
    begins timestamptz := of_day::timestamp AT TIME ZONE 'UTC';
    ends timestamptz := (of_day + 1)::timestamp AT TIME ZONE 'UTC';
BEGIN
    IF to_regclass(format('{schema}.%I', part)) IS NOT NULL OR EXISTS (
        SELECT FROM {schema}.history_rest WHERE done_at >= begins AND done_at < ends
    ) THEN
        RETURN FALSE;
    END IF;
    -- Made apart and then attached: that lets readers and writers of the other parts go on.
    EXECUTE format('CREATE TABLE {schema}.%I (LIKE {schema}.history INCLUDING DEFAULTS)', part);
    EXECUTE format(
        'ALTER TABLE {schema}.history ATTACH PARTITION {schema}.%I FOR VALUES FROM (%L) TO (%L)', part, begins, ends
    );
    RETURN TRUE;
END
$function$;

-- The days that have a part of the history of their own.
CREATE FUNCTION {schema}.history_days() RETURNS SETOF date
LANGUAGE sql STABLE
AS $function$
    SELECT to_date(right(class.relname, 8), 'YYYYMMDD')
    FROM pg_inherits AS part JOIN pg_class AS class ON class.oid = part.inhrelid
    WHERE part.inhparent = '{schema}.history'::regclass AND class.relname ~ '^history_\d{{8}}$'
    ORDER BY 1
$function$;

-- Empty the part of a day at once, unless one of the queues that keep what they did that day has something in it.
-- Answers how many rows went; NULL if it stays.
CREATE FUNCTION {schema}.empty_history_day(of_day date, staying integer[]) RETURNS bigint
LANGUAGE plpgsql
SET enable_seqscan = off
AS $function$
DECLARE
    part text := 'history_' || to_char(of_day, 'YYYYMMDD');
    stays boolean;
    emptied bigint;
BEGIN
    -- Looked at before, so that a day which stays is never locked, and under the lock. Nobody writes into a day that is
    -- over, but a transaction that began on it.
    FOR look IN 1..2 LOOP
        EXECUTE format(
            'SELECT EXISTS (SELECT FROM unnest($1) AS queue (queue_id) WHERE EXISTS ('
            'SELECT FROM {schema}.%I AS done WHERE done.queue_id = queue.queue_id))', part
        ) INTO stays USING staying;
        IF stays THEN
            RETURN NULL;
        END IF;
        EXECUTE format('LOCK TABLE {schema}.%I IN ACCESS EXCLUSIVE MODE', part);
    END LOOP;
    EXECUTE format(
        'INSERT INTO {schema}.dropped (arrival_id, position) SELECT arrival_id, position FROM {schema}.%I', part
    );
    GET DIAGNOSTICS emptied = ROW_COUNT;
    IF emptied > 0 THEN
        EXECUTE format('TRUNCATE {schema}.%I', part);
    END IF;
    RETURN emptied;
END
$function$;

-- Take the part of a day away, if it is empty. It waits for no more than a moment (`lock_timeout` of the caller):
-- others would wait behind it.
CREATE FUNCTION {schema}.drop_history_day(of_day date) RETURNS boolean
LANGUAGE plpgsql
AS $function$
DECLARE
    part text := 'history_' || to_char(of_day, 'YYYYMMDD');
    used boolean;
BEGIN
    FOR look IN 1..2 LOOP
        EXECUTE format('SELECT EXISTS (SELECT FROM {schema}.%I)', part) INTO used;
        IF used THEN
            RETURN FALSE;
        END IF;
        LOCK TABLE ONLY {schema}.history IN ACCESS EXCLUSIVE MODE;
    END LOOP;
    EXECUTE format('DROP TABLE {schema}.%I', part);
    RETURN TRUE;
END
$function$;

-- Begin a group anew that has nothing: as if it were unknown, but in its next incarnation. The caller has its lock.
-- Answers with the new incarnation, or NULL where it isn't known; then there is nothing to forget.
CREATE FUNCTION {schema}.forget(of_queue integer, of_group text, fresh bigint[]) RETURNS integer
LANGUAGE sql
AS $function$
    UPDATE {schema}.groups SET
        incarnation = incarnation + 1, flags = fresh[1], first = fresh[2], next = fresh[3], mark = fresh[4],
        last = fresh[5], ordinal = fresh[6], since = fresh[7], reports = fresh[8], clock = fresh[9],
        skipped = '{{}}', due_at = NULL, ready_rank = NULL, touched_at = now()
    WHERE queue_id = of_queue AND group_key = of_group
    RETURNING incarnation
$function$;

-- See that nobody has published, and not committed yet, by what is about to go; and that nobody begins to until this
-- transaction ends. FALSE where that took too long: then publishers go on.
CREATE FUNCTION {schema}.hold_publishers(patience_ms integer) RETURNS boolean
LANGUAGE plpgsql
AS $function$
DECLARE
    before text := current_setting('lock_timeout');
BEGIN
    PERFORM set_config('lock_timeout', patience_ms::text, TRUE);
    PERFORM pg_advisory_xact_lock(hashtextextended('seriatim publishers', '{schema}'::regnamespace::oid::bigint));
    PERFORM set_config('lock_timeout', before, TRUE);
    RETURN TRUE;
EXCEPTION WHEN lock_not_available THEN
    RETURN FALSE;
END
$function$;

-- Put messages that were unrouted into queues. Answers FALSE, and does nothing, if the definitions have changed since
-- `known_version`. The arrays are those of `enter`; the caller has locked the rows of `unrouted`.
CREATE FUNCTION {schema}.route_again(
    known_version bigint, arrival_ids bigint[], positions bigint[], new_contexts text[], new_property_types text[],
    destinations integer[], problems text[],
    entry_places bigint[], entry_queues integer[], entry_groups text[], entry_sequences bigint[],
    entry_sizes bigint[], entry_priorities integer[], entry_problems text[], entry_subscriptions text[],
    entry_waits boolean[]
) RETURNS boolean
LANGUAGE plpgsql
AS $function$
BEGIN
    PERFORM {schema}.hold_definitions();
    IF known_version <> (SELECT max(version) FROM {schema}.changes) THEN
        RETURN FALSE;
    END IF;
    -- Those that nobody wants now either are entered there again, with what is wrong with them now.
    DELETE FROM {schema}.unrouted AS known
    USING unnest(arrival_ids, positions) AS message (arrival_id, position)
    WHERE known.arrival_id = message.arrival_id AND known.position = message.position;
    UPDATE {schema}.spool AS stored
    SET context = message.context::jsonb, property_types = message.property_types::jsonb, destinations = message.queues
    FROM unnest(arrival_ids, positions, new_contexts, new_property_types, route_again.destinations)
        AS message (arrival_id, position, context, property_types, queues)
    WHERE stored.arrival_id = message.arrival_id AND stored.position = message.position AND message.queues > 0;
    PERFORM {schema}.enter(
        arrival_ids, positions, destinations, problems, NULL, entry_places, entry_queues, entry_groups,
        entry_sequences, entry_sizes, entry_priorities, entry_problems, entry_subscriptions, entry_waits
    );
    UPDATE {schema}.entries AS entry SET visible_at = stored.visible_at
    FROM unnest(arrival_ids, positions) AS message (arrival_id, position)
    JOIN {schema}.spool AS stored USING (arrival_id, position)
    WHERE entry.arrival_id = message.arrival_id AND entry.position = message.position
        AND stored.visible_at > clock_timestamp();
    RETURN TRUE;
END
$function$;

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

-- Who wants which messages, by name.
CREATE VIEW {schema}.subscription_states AS
SELECT
    one.subscription,
    place.queue,
    one.state,
    one.definition ->> 'state' AS declared_state,
    one.definition ->> 'where' AS filter
FROM {schema}.subscriptions AS one JOIN {schema}.queues AS place USING (queue_id);

-- Where each message is: a row for each queue that has it, or had it and keeps it, or for nobody having wanted it.
-- `status`: arrived, held, queued, in_hand; late, duplicate, invalid, rejected, dead; done; unrouted. `since`: in that status,
-- as far as that is known. `waits`: only subscriptions that aren't started have collected it.
CREATE VIEW {schema}.message_places AS
SELECT
    stored.message_id,
    stored.type,
    run.location,
    run.epoch + (run.number - 1 + place.position) / start.last_number AS epoch,
    (run.number - 1 + place.position) % start.last_number + 1 AS number,
    queue.queue,
    place.group_key,
    place.status,
    place.reason,
    place.sequence,
    place.ordinal,
    place.priority,
    place.attempt,
    place.visible_at,
    EXISTS (
        SELECT FROM {schema}.subscriptions AS one WHERE one.subscription_id = ANY (place.subscription_ids)
    ) AND NOT EXISTS (
        SELECT FROM {schema}.subscriptions AS one
        WHERE one.subscription_id = ANY (place.subscription_ids) AND one.state = 'started'
    ) AS waits,
    ARRAY(
        SELECT one.subscription::text FROM {schema}.subscriptions AS one
        WHERE one.subscription_id = ANY (place.subscription_ids) ORDER BY 1
    ) AS subscriptions,
    stored.received_at,
    place.since,
    length(stored.body) AS body_bytes,
    run.stamp,
    place.arrival_id,
    place.position,
    place.arrival,
    coalesce(stored.parts, 0) AS parts
FROM (
    SELECT
        arrival_id, position, queue_id, group_key, status, NULL AS reason, sequence, ordinal, priority, attempt,
        visible_at, subscription_ids, arrival, NULL::timestamptz AS since
    FROM {schema}.entries
    UNION ALL
    SELECT
        arrival_id, position, queue_id, group_key, disposition, reason, sequence, ordinal, priority, attempt,
        NULL, subscription_ids, NULL, aside_at
    FROM {schema}.aside
    UNION ALL
    SELECT
        arrival_id, position, queue_id, group_key, 'done', NULL, sequence, ordinal, NULL, attempt,
        NULL, subscription_ids, NULL, done_at
    FROM {schema}.history
    UNION ALL
    SELECT
        arrival_id, position, NULL, NULL, 'unrouted', problem, NULL, NULL, NULL, 0, NULL, '{{}}'::integer[], NULL,
        unrouted_at
    FROM {schema}.unrouted
) AS place
JOIN {schema}.spool AS stored USING (arrival_id, position)
JOIN {schema}.tickets AS run USING (arrival_id)
JOIN {schema}.locations AS start USING (location)
LEFT JOIN {schema}.queues AS queue USING (queue_id);

-- The queues that pipelines read. `reader`: what the pipeline's checkpoint knows itself by. `batch`: the newest batch
-- that is complete, and may be handed over again and again; `done`: through this one they are worked on, and
-- those before it are gone.
CREATE TABLE {schema}.readers (
    queue_id integer PRIMARY KEY REFERENCES {schema}.queues,
    reader text NOT NULL,
    batch bigint NOT NULL DEFAULT 0,
    done bigint NOT NULL DEFAULT 0 CHECK (done <= batch)
);

-- What a pipeline has worked on is done, through a batch. Those before it go, or are kept as history, as `complete` does
-- it; this one stays until the next is worked on.
CREATE FUNCTION {schema}.complete_batches(of_queue integer, by_reader text, through bigint, keep text) RETURNS boolean
LANGUAGE plpgsql
-- A plan that is made while the tables are small must not be one that reads all of them when they are large.
SET enable_seqscan = off
SET enable_mergejoin = off
AS $function$
BEGIN
    UPDATE {schema}.readers SET done = least(greatest(done, through), batch)
    WHERE queue_id = of_queue AND reader = by_reader;
    IF NOT FOUND THEN
        RETURN FALSE;
    END IF;
    WITH finished AS (
        DELETE FROM {schema}.entries AS entry WHERE entry.queue_id = of_queue AND entry.batch < through
        RETURNING entry.*
    ), kept AS (
        INSERT INTO {schema}.history (
            entry_id, queue_id, group_key, incarnation, ordinal, late, arrival_id, position, sequence,
            subscription_ids, attempt
        )
        SELECT
            entry_id, queue_id, group_key, coalesce(known.incarnation, 0), finished.ordinal, late, arrival_id,
            position, sequence, subscription_ids, attempt
        FROM finished LEFT JOIN {schema}.groups AS known USING (queue_id, group_key)
        WHERE keep = 'everything' OR keep = 'faults' AND attempt > 0
    ), alone AS (
        DELETE FROM {schema}.spool AS stored USING finished
        WHERE stored.arrival_id = finished.arrival_id AND stored.position = finished.position
            AND stored.destinations = 1 AND (keep = 'nothing' OR keep = 'faults' AND finished.attempt = 0)
        RETURNING stored.arrival_id, stored.position
    )
    INSERT INTO {schema}.dropped (arrival_id, position)
    SELECT arrival_id, position FROM finished
    WHERE (keep = 'nothing' OR keep = 'faults' AND attempt = 0)
        AND NOT EXISTS (
            SELECT FROM alone WHERE alone.arrival_id = finished.arrival_id AND alone.position = finished.position
        );
    RETURN TRUE;
END
$function$;

-- Make a queue a pipeline's own. Answers with the pipeline that has it, where it is another one's; with nothing where a
-- reader that isn't new is known no more. One that has never had a batch worked on makes way for a new one; one that has
-- does only for somebody who says so.
CREATE FUNCTION {schema}.claim_queue(
    of_queue integer, by_reader text, by_pipeline text, is_new boolean, takes_over boolean
) RETURNS text
LANGUAGE plpgsql
AS $function$
DECLARE
    known record;
    named text;
    keeps text;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('seriatim definitions', '{schema}'::regnamespace::oid::bigint));
    SELECT owner, coalesce(definition ->> 'keep', 'nothing') INTO named, keeps
    FROM {schema}.queues WHERE queue_id = of_queue FOR NO KEY UPDATE;
    SELECT reader, done INTO known FROM {schema}.readers WHERE queue_id = of_queue;
    IF known.reader = by_reader THEN
        RETURN NULL;
    END IF;
    IF NOT is_new OR known.done > 0 AND NOT takes_over THEN
        RETURN coalesce(named, '');
    END IF;
    PERFORM {schema}.complete_batches(of_queue, known.reader, known.done + 1, keeps);
    INSERT INTO {schema}.readers (queue_id, reader) VALUES (of_queue, by_reader)
    ON CONFLICT (queue_id) DO UPDATE SET reader = excluded.reader;
    IF named IS DISTINCT FROM by_pipeline THEN
        UPDATE {schema}.queues SET owner = by_pipeline WHERE queue_id = of_queue;
        INSERT INTO {schema}.changes (version, what)
        SELECT max(version) + 1, 'the pipeline ' || by_pipeline || ' reads a queue' FROM {schema}.changes;
    END IF;
    RETURN NULL;
END
$function$;

-- Give a queue back to workers: what its pipeline had in hand is queued again, in its place.
CREATE FUNCTION {schema}.release_queue(of_queue integer) RETURNS boolean
LANGUAGE plpgsql
AS $function$
DECLARE
    known record;
    keeps text;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('seriatim definitions', '{schema}'::regnamespace::oid::bigint));
    SELECT coalesce(definition ->> 'keep', 'nothing') INTO keeps
    FROM {schema}.queues WHERE queue_id = of_queue FOR NO KEY UPDATE;
    SELECT reader, done INTO known FROM {schema}.readers WHERE queue_id = of_queue;
    IF NOT FOUND THEN
        RETURN FALSE;
    END IF;
    PERFORM {schema}.complete_batches(of_queue, known.reader, known.done + 1, keeps);
    DELETE FROM {schema}.readers WHERE queue_id = of_queue;
    WITH back AS (
        UPDATE {schema}.entries SET
            status = CASE WHEN ordinal IS NULL THEN 'arrived' ELSE 'queued' END, batch = NULL
        WHERE queue_id = of_queue AND batch IS NOT NULL
        RETURNING group_key, rank
    )
    UPDATE {schema}.groups AS one SET ready_rank = least(one.ready_rank, first.rank)
    FROM (SELECT group_key, min(rank) AS rank FROM back GROUP BY group_key) AS first
    WHERE one.queue_id = of_queue AND one.group_key = first.group_key;
    UPDATE {schema}.queues SET owner = NULL WHERE queue_id = of_queue;
    INSERT INTO {schema}.changes (version, what)
    SELECT max(version) + 1, 'no pipeline reads a queue any more' FROM {schema}.changes;
    RETURN TRUE;
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
                SELECT group_key, ready_rank AS rank FROM {schema}.groups
                WHERE queue_id = of_queue AND ready_rank IS NOT NULL ORDER BY ready_rank LIMIT how_many
            ) UNION ALL (
                SELECT group_key, rank FROM {schema}.entries
                WHERE queue_id = of_queue AND status = 'arrived' ORDER BY rank LIMIT 20 * how_many
            ) UNION ALL (
                SELECT group_key, due_at FROM {schema}.groups
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

-- Put into a reader's next batch what a turn has released; the groups are locked by the caller.
CREATE FUNCTION {schema}.put_in_batch(
    of_queue integer, in_batch bigint, entry_ids bigint[], ordinals bigint[], lates boolean[]
) RETURNS void
LANGUAGE sql
AS $function$
    UPDATE {schema}.entries AS entry SET
        status = 'in_hand', batch = in_batch, ordinal = handed.ordinal, late = handed.late
    FROM unnest(entry_ids, ordinals, lates) AS handed (entry_id, ordinal, late)
    WHERE entry.entry_id = handed.entry_id AND entry.queue_id = of_queue
$function$;

-- Put into a reader's next batch the next messages of a queue without order. Answers with how many.
CREATE FUNCTION {schema}.put_in_batch_unordered(of_queue integer, in_batch bigint, at_most bigint) RETURNS bigint
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
AS $function$
DECLARE
    stopped integer[] := (
        SELECT array_agg(subscription_id) FROM {schema}.subscriptions WHERE queue_id = of_queue AND state <> 'started'
    );
    taken bigint;
BEGIN
    UPDATE {schema}.entries AS entry SET status = 'in_hand', batch = in_batch
    FROM (
        SELECT entry_id FROM {schema}.entries
        WHERE queue_id = of_queue AND status = 'arrived' AND (visible_at IS NULL OR visible_at <= clock_timestamp())
            AND (subscription_ids <> '{{}}' AND subscription_ids <@ stopped) IS NOT TRUE
        ORDER BY rank LIMIT at_most
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS next
    WHERE entry.entry_id = next.entry_id;
    GET DIAGNOSTICS taken = ROW_COUNT;
    RETURN taken;
END
$function$;

-- Who writes batches into the box, and the last one of each that is in it, by which version of the definitions it was
-- routed. A batch that comes again is in it already.
CREATE TABLE {schema}.writers (
    writer text PRIMARY KEY,
    batch bigint NOT NULL DEFAULT -1,
    version bigint,
    messages bigint NOT NULL DEFAULT 0,
    merged_at timestamptz NOT NULL DEFAULT now()
);

-- Parts of batches, staged by tasks that may be repeated; what a batch is made of is said when it is merged. None of
-- it outlives a crash of the server, which the merge notices by the counts; the batch is then staged anew.
CREATE UNLOGGED TABLE {schema}.parts (
    part_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    writer text NOT NULL,
    batch bigint NOT NULL,
    version bigint NOT NULL,
    messages bigint NOT NULL,
    entries bigint NOT NULL,
    staged_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX parts_of_writer ON {schema}.parts (writer, batch);
CREATE INDEX parts_by_age ON {schema}.parts (staged_at);

CREATE UNLOGGED TABLE {schema}.staged_messages (
    part_id bigint NOT NULL,
    place bigint NOT NULL,
    message_id text NOT NULL,
    type text NOT NULL,
    location text NOT NULL,
    content_type text,
    context text NOT NULL,
    property_types text,
    body bytea NOT NULL,
    destinations integer NOT NULL,
    problem text,
    -- How many parts it has; NULL: none.
    parts integer
);
CREATE INDEX staged_messages_of_part ON {schema}.staged_messages (part_id, place);

-- Where they go. `place` is that of the message in its part.
CREATE UNLOGGED TABLE {schema}.staged_entries (
    part_id bigint NOT NULL,
    place bigint NOT NULL,
    queue_id integer NOT NULL,
    group_key text,
    sequence bigint,
    size bigint,
    priority integer NOT NULL,
    problem text,
    subscription_ids integer[] NOT NULL
);
CREATE INDEX staged_entries_of_part ON {schema}.staged_entries (part_id, place);

-- What they have beside their bodies. `place` is that of the message in its part of the batch.
CREATE UNLOGGED TABLE {schema}.staged_message_parts (
    part_id bigint NOT NULL,
    place bigint NOT NULL,
    number bigint NOT NULL,
    name text NOT NULL,
    content_type text,
    body bytea NOT NULL
);
CREATE INDEX staged_message_parts_of_part ON {schema}.staged_message_parts (part_id, place);

-- Take the staged parts of a batch in, in their order, as one publishing. The caller holds the definitions by which
-- they were routed, and the writer's row. Messages that were published before are left out, unless they `repeat`: one
-- message of a pipeline may go to several queues. Answers with how many are taken in.
CREATE FUNCTION {schema}.merge_parts(of_parts bigint[], repeat boolean) RETURNS bigint
LANGUAGE plpgsql
AS $function$
DECLARE
    moment_us bigint := {schema}.now_us();
    taken bigint;
BEGIN
    WITH staged AS MATERIALIZED (
        SELECT message.part_id, message.place, message.message_id, message.location,
            row_number() OVER (ORDER BY part.at, message.place) AS number,
            CASE WHEN repeat THEN 1
                ELSE row_number() OVER (PARTITION BY message.message_id ORDER BY part.at, message.place) END AS copy
        FROM unnest(of_parts) WITH ORDINALITY AS part (part_id, at)
        JOIN {schema}.staged_messages AS message USING (part_id)
    ), fresh AS (
        -- In one order for all publishers, so that two of them never wait for each other crosswise.
        INSERT INTO {schema}.message_ids (message_id)
        SELECT message_id FROM staged WHERE copy = 1 AND NOT repeat ORDER BY message_id
        ON CONFLICT DO NOTHING
        RETURNING message_id
    ), numbered AS MATERIALIZED (
        SELECT part_id, place, location, row_number() OVER (PARTITION BY location ORDER BY number) - 1 AS position
        FROM staged LEFT JOIN fresh USING (message_id)
        WHERE copy = 1 AND (repeat OR fresh.message_id IS NOT NULL)
    ), arrived AS (
        INSERT INTO {schema}.arrivals (location, count, queue_ids)
        SELECT location, count(*), ARRAY(
            SELECT DISTINCT queue_id FROM {schema}.staged_entries WHERE part_id = ANY (of_parts)
        ) FROM numbered GROUP BY location
        RETURNING arrival_id, location
    ), placed AS MATERIALIZED (
        SELECT part_id, place, arrival_id, position FROM numbered JOIN arrived USING (location)
    ), spooled AS (
        INSERT INTO {schema}.spool (
            arrival_id, position, message_id, type, content_type, context, property_types, body, destinations, parts
        )
        SELECT
            arrival_id, position, message_id, type, content_type, context::jsonb, property_types::jsonb, body,
            destinations, parts
        FROM placed JOIN {schema}.staged_messages USING (part_id, place)
    ), beside AS (
        INSERT INTO {schema}.message_parts (arrival_id, position, number, name, content_type, body)
        SELECT arrival_id, position, number, name, content_type, body
        FROM placed JOIN {schema}.staged_message_parts USING (part_id, place)
    ), entered AS (
        INSERT INTO {schema}.entries (
            queue_id, group_key, rank, arrival_id, position, sequence, size, priority, subscription_ids
        )
        SELECT
            queue_id, group_key, moment_us - (priority - 5) * 10000000, arrival_id, position, sequence, size,
            priority, subscription_ids
        FROM placed JOIN {schema}.staged_entries AS entry USING (part_id, place) WHERE entry.problem IS NULL
    ), refused AS (
        INSERT INTO {schema}.aside (
            entry_id, queue_id, group_key, disposition, reason, arrival_id, position, sequence, size, priority,
            subscription_ids
        )
        SELECT
            nextval('{schema}.entry_ids'), queue_id, group_key, 'invalid', entry.problem, arrival_id, position,
            sequence, size, priority, subscription_ids
        FROM placed JOIN {schema}.staged_entries AS entry USING (part_id, place) WHERE entry.problem IS NOT NULL
    ), nowhere AS (
        INSERT INTO {schema}.unrouted (arrival_id, position, problem)
        SELECT arrival_id, position, problem
        FROM placed JOIN {schema}.staged_messages USING (part_id, place) WHERE destinations = 0
    )
    SELECT count(*) INTO taken FROM placed;
    DELETE FROM {schema}.staged_entries WHERE part_id = ANY (of_parts);
    DELETE FROM {schema}.staged_message_parts WHERE part_id = ANY (of_parts);
    DELETE FROM {schema}.staged_messages WHERE part_id = ANY (of_parts);
    DELETE FROM {schema}.parts WHERE part_id = ANY (of_parts);
    RETURN taken;
END
$function$;

CREATE SEQUENCE {schema}.instance_ids;

-- What runs: of a group of a queue one, made by an activation when the first message of the group was worked on. Only
-- a turn, which has the group's lock, and operators under the same lock write here; what has ended is gone. `state`:
-- what a handler keeps of it, as it wrote it; `version`: how often that was written.
CREATE TABLE {schema}.instances (
    instance_id bigint PRIMARY KEY,
    queue_id integer NOT NULL,
    group_key text COLLATE "C" NOT NULL,
    subscription_id integer NOT NULL REFERENCES {schema}.subscriptions,
    state json NOT NULL CHECK (json_typeof(state) = 'object'),
    version bigint NOT NULL DEFAULT 1,
    started_at timestamptz NOT NULL DEFAULT now(),
    changed_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (queue_id, group_key)
) WITH (fillfactor = 70);
CREATE INDEX instances_of_subscription ON {schema}.instances (subscription_id);

-- What an instance has added to the key of its group: messages that have one of these values are for it. The key says
-- that they lead a message to one instance of a queue, and is what publishers look into.
CREATE TABLE {schema}.correlations (
    queue_id integer NOT NULL,
    property text COLLATE "C" NOT NULL,
    value text COLLATE "C" NOT NULL,
    instance_id bigint NOT NULL REFERENCES {schema}.instances ON DELETE CASCADE,
    PRIMARY KEY (queue_id, property, value)
);
CREATE INDEX correlations_of_instance ON {schema}.correlations (instance_id);

-- The instance of a group, or the id of one to be; `added`: the pairs of properties and values that it has added.
CREATE FUNCTION {schema}.find_instance(
    of_queue integer, of_group text,
    OUT number bigint, OUT made_by integer, OUT kept_state text, OUT known_version bigint, OUT added text[]
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    SELECT known.instance_id, known.subscription_id, known.state::text, known.version
    INTO number, made_by, kept_state, known_version
    FROM {schema}.instances AS known WHERE known.queue_id = of_queue AND known.group_key = of_group;
    IF FOUND THEN
        SELECT array_agg(ARRAY[one.property, one.value]) INTO added
        FROM {schema}.correlations AS one WHERE one.instance_id = number;
    ELSE
        number := nextval('{schema}.instance_ids');
    END IF;
END
$function$;

-- Write down what a handler made of an instance; the caller has the lock of its group. `known_version`: NULL makes it.
-- `new_state`: NULL leaves it. `kept`: FALSE where it isn't there any more as the caller knew it. `taken`: which of the
-- values leads to another instance already; then the caller rolls back.
CREATE FUNCTION {schema}.keep_instance(
    of_instance bigint, of_queue integer, of_group text, of_subscription integer, known_version bigint,
    new_state text, properties text[], new_values text[], OUT kept boolean, OUT taken text
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    IF known_version IS NULL THEN
        INSERT INTO {schema}.instances (instance_id, queue_id, group_key, subscription_id, state)
        VALUES (of_instance, of_queue, of_group, of_subscription, new_state::json);
        kept := TRUE;
    ELSE
        UPDATE {schema}.instances AS known SET
            state = coalesce(new_state::json, known.state), version = known.version + 1, changed_at = now()
        WHERE known.instance_id = of_instance AND known.queue_id = of_queue AND known.version = known_version;
        kept := FOUND;
    END IF;
    IF kept AND cardinality(properties) > 0 THEN
        -- In one order for all, so that two of them never wait for each other crosswise.
        INSERT INTO {schema}.correlations (queue_id, property, value, instance_id)
        SELECT of_queue, one.property, one.value, of_instance
        FROM unnest(properties, new_values) AS one (property, value)
        ORDER BY one.property, one.value
        ON CONFLICT DO NOTHING;
        SELECT known.property || ' = ' || known.value INTO taken
        FROM unnest(properties, new_values) AS one (property, value)
        JOIN {schema}.correlations AS known
            ON known.queue_id = of_queue AND known.property = one.property AND known.value = one.value
        WHERE known.instance_id <> of_instance
        LIMIT 1;
    END IF;
END
$function$;

-- End an instance: nothing leads to it any more. FALSE where it isn't there any more as the caller knew it.
CREATE FUNCTION {schema}.end_instance(of_instance bigint, of_queue integer, known_version bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    DELETE FROM {schema}.instances
    WHERE instance_id = of_instance AND queue_id = of_queue AND version = known_version;
    RETURN FOUND;
END
$function$;

-- A message that was for an instance which has ended meanwhile, and that no activation can take: set aside as dead. The
-- caller has the lock of its group, and has been handed it.
CREATE FUNCTION {schema}.set_stray_aside(of_queue integer, of_group text, of_message text, of_ordinal bigint, why text)
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

-- The groups, and the activations, of the instances that have added some values; a row for each, in order.
CREATE FUNCTION {schema}.led_by(of_queues integer[], properties text[], its_values text[])
RETURNS TABLE (led_to text, activation integer)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    PERFORM {schema}.permit_anything();
    RETURN QUERY
    SELECT known.group_key, known.subscription_id
    FROM unnest(of_queues, properties, its_values) WITH ORDINALITY AS asked (queue_id, property, value, place)
    LEFT JOIN {schema}.correlations AS added
        ON added.queue_id = asked.queue_id AND added.property = asked.property COLLATE "C"
        AND added.value = asked.value COLLATE "C"
    LEFT JOIN {schema}.instances AS known USING (instance_id)
    ORDER BY asked.place;
END
$function$;

-- How many instances of an activation run; counted no further than to a bit more than a thousand.
CREATE FUNCTION {schema}.running_of(of_subscription integer) RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    PERFORM {schema}.permit('subscribe', ARRAY(
        SELECT queue_id FROM {schema}.subscriptions WHERE subscription_id = of_subscription
    ));
    RETURN (
        SELECT count(*) FROM (
            SELECT FROM {schema}.instances WHERE subscription_id = of_subscription LIMIT 1001
        ) AS found
    );
END
$function$;

-- The instances as they stand, read without locks. `status`: suspended where their group is. `correlations`: the values
-- by property, without the key of the group.
CREATE VIEW {schema}.instance_states AS
SELECT
    known.instance_id,
    place.queue,
    known.group_key,
    CASE WHEN coalesce((
        SELECT action = 'suspend' FROM {schema}.requests AS request
        WHERE request.queue_id = known.queue_id AND request.group_key = known.group_key AND request.action <> 'look'
        ORDER BY request_id DESC LIMIT 1
    ), judged.flags & 8 <> 0, FALSE) THEN 'suspended' ELSE 'running' END AS status,
    one.subscription,
    one.definition ->> 'starts' AS starts,
    coalesce((
        SELECT jsonb_object_agg(each.property, each.found) FROM (
            SELECT added.property, jsonb_agg(added.value ORDER BY added.value) AS found
            FROM {schema}.correlations AS added
            WHERE added.instance_id = known.instance_id GROUP BY added.property
        ) AS each
    ), '{{}}') AS correlations,
    (
        SELECT count(*) FROM {schema}.entries AS entry
        WHERE entry.queue_id = known.queue_id AND entry.group_key = known.group_key
    ) AS waiting,
    known.state,
    known.version,
    known.started_at,
    known.changed_at
FROM {schema}.instances AS known
JOIN {schema}.queues AS place USING (queue_id)
LEFT JOIN {schema}.subscriptions AS one USING (subscription_id)
LEFT JOIN {schema}.groups AS judged ON judged.queue_id = known.queue_id AND judged.group_key = known.group_key;

-- Roles: which queues the roles of applications may use; and publishing from SQL, routed by whoever comes first.
--
-- A role has no right on any table, view or sequence. What it may call is SECURITY DEFINER: it does its work as the
-- owner of the box, and looks first whether the role may. All else is the owner's.

-- What a role may: publish to a queue, receive from it, subscribe for it; `route`, which is about no one queue: read and
-- route whatever was published through SQL.
CREATE TABLE {schema}.grants (
    role regrole NOT NULL,
    may text NOT NULL CHECK (may IN ('publish', 'receive', 'subscribe', 'route')),
    queue_id integer REFERENCES {schema}.queues ON DELETE CASCADE,
    granted_at timestamptz NOT NULL DEFAULT now(),
    granted_by text NOT NULL DEFAULT session_user,
    UNIQUE NULLS NOT DISTINCT (role, may, queue_id),
    CHECK ((queue_id IS NULL) = (may = 'route'))
);
CREATE INDEX grants_of_queue ON {schema}.grants (queue_id);

CREATE INDEX to_route_in_order ON {schema}.to_route (stamp, position);

-- Who calls: the role of the session. Within a function that runs as somebody else there is no other way to know.
CREATE FUNCTION {schema}.caller() RETURNS name
LANGUAGE sql STABLE
RETURN CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role')::name END;

-- Is the caller the owner of the box, or a member of it? For functions that run as the owner.
CREATE FUNCTION {schema}.is_owner() RETURNS boolean
LANGUAGE sql STABLE
RETURN pg_has_role({schema}.caller(), current_user, 'USAGE');

-- The queues for which the caller has a right, where it isn't the owner.
CREATE FUNCTION {schema}.permitted(what text) RETURNS integer[]
LANGUAGE sql STABLE
RETURN ARRAY(
    SELECT queue_id FROM {schema}.grants
    WHERE may = what AND pg_has_role({schema}.caller(), role::oid, 'USAGE') ORDER BY queue_id
);

-- Refuse a caller that hasn't a right for all of these queues, or has it for none at all.
CREATE FUNCTION {schema}.permit(what text, queue_ids integer[]) RETURNS void
LANGUAGE plpgsql STABLE
AS $function$
DECLARE
    granted integer[];
    verb text := CASE what
        WHEN 'publish' THEN 'publish to' WHEN 'receive' THEN 'receive from' WHEN 'subscribe' THEN 'subscribe for'
        ELSE what END;
    place text;
BEGIN
    IF {schema}.is_owner() THEN
        RETURN;
    END IF;
    granted := {schema}.permitted(what);
    IF cardinality(granted) > 0 AND queue_ids <@ granted THEN
        RETURN;
    END IF;
    SELECT format('the queue "%s"', coalesce(
        (SELECT known.queue FROM {schema}.queues AS known WHERE known.queue_id = one), one::text
    )) INTO place
    FROM unnest(queue_ids) AS one WHERE NOT ARRAY[one] <@ granted LIMIT 1;
    RAISE EXCEPTION 'the role "%" may not % %', {schema}.caller(), verb, coalesce(place, 'any queue') USING
        ERRCODE = 'insufficient_privilege',
        HINT = 'seriatim box grant';
END
$function$;

-- Refuse a caller that may not receive from a queue, or names entries that are in another one.
CREATE FUNCTION {schema}.permit_entries(of_queue integer, entry_ids bigint[]) RETURNS void
LANGUAGE plpgsql STABLE
AS $function$
BEGIN
    IF {schema}.is_owner() THEN
        RETURN;
    END IF;
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    IF EXISTS (
        SELECT FROM {schema}.entries AS entry WHERE entry.entry_id = ANY (entry_ids) AND entry.queue_id <> of_queue
    ) THEN
        RAISE EXCEPTION 'these entries are in another queue' USING ERRCODE = 'insufficient_privilege';
    END IF;
END
$function$;

-- Refuse a caller that has no right at all.
CREATE FUNCTION {schema}.permit_anything() RETURNS void
LANGUAGE plpgsql STABLE
AS $function$
BEGIN
    IF NOT {schema}.is_owner() AND NOT EXISTS (
        SELECT FROM {schema}.grants WHERE pg_has_role({schema}.caller(), role::oid, 'USAGE')
    ) THEN
        RAISE EXCEPTION 'the role "%" may do nothing in this message box', {schema}.caller() USING
            ERRCODE = 'insufficient_privilege',
            HINT = 'seriatim box grant';
    END IF;
END
$function$;

-- Let a role call what looks by itself whether it may. Called again after a migration, for what that has made.
CREATE FUNCTION {schema}.let_in(who regrole) RETURNS void
LANGUAGE plpgsql
AS $function$
DECLARE
    door regprocedure;
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA %s TO %s', '{schema}'::regnamespace, who);
    FOR door IN
        SELECT oid FROM pg_proc
        WHERE pronamespace = '{schema}'::regnamespace AND prosecdef AND prorettype <> 'trigger'::regtype
    LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s', door, who);
    END LOOP;
END
$function$;

-- Take that back.
CREATE FUNCTION {schema}.shut_out(who regrole) RETURNS void
LANGUAGE plpgsql
AS $function$
BEGIN
    EXECUTE format('REVOKE ALL ON ALL FUNCTIONS IN SCHEMA %s FROM %s', '{schema}'::regnamespace, who);
    EXECUTE format('REVOKE ALL ON SCHEMA %s FROM %s', '{schema}'::regnamespace, who);
END
$function$;

-- The version of the schema.
CREATE FUNCTION {schema}.schema_version() RETURNS integer
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM {schema}.permit_anything();
    RETURN (SELECT max(number) FROM {schema}.migrations);
END
$function$;

-- The version of what is defined.
CREATE FUNCTION {schema}.version() RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM {schema}.permit_anything();
    RETURN (SELECT max(change.version) FROM {schema}.changes AS change);
END
$function$;

-- Everything that is defined, with its version, as of one moment. Whoever routes has to know all of it.
CREATE FUNCTION {schema}.definitions()
RETURNS TABLE (kind text, id bigint, name text, definition jsonb, state text, owner text, incarnation integer)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
BEGIN
    PERFORM {schema}.permit_anything();
    RETURN QUERY
        SELECT 'version', max(version), NULL, NULL::jsonb, NULL, NULL, NULL::integer FROM {schema}.changes
        UNION ALL
        SELECT 'type', NULL, type, definition, NULL, NULL, NULL FROM {schema}.types
        UNION ALL
        SELECT 'queue', queue_id, queue, definition, CASE WHEN enabled THEN 'on' ELSE 'off' END, owner, incarnation
        FROM {schema}.queues
        UNION ALL
        SELECT 'subscription', subscription_id, subscription, definition, state, NULL, NULL
        FROM {schema}.subscriptions
        UNION ALL
        SELECT 'contract', NULL, contract, definition, NULL, NULL, NULL FROM {schema}.contracts
        UNION ALL
        SELECT 'service', queue_id, service, definition, NULL, NULL, NULL FROM {schema}.services;
END
$function$;

-- Make a subscription, or change one.
CREATE FUNCTION {schema}.subscribe(
    named text, to_queue text, declared jsonb, its_state text
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    place integer := (SELECT queue_id FROM {schema}.queues WHERE queue = to_queue);
BEGIN
    -- Where it leads, and where it led.
    PERFORM {schema}.permit('subscribe', ARRAY(
        SELECT place
        UNION ALL
        SELECT queue_id FROM {schema}.subscriptions WHERE subscription = named
    ));
    INSERT INTO {schema}.subscriptions AS known (subscription, queue_id, definition, state)
    VALUES (named, place, declared, its_state)
    ON CONFLICT (subscription) DO UPDATE
    SET definition = excluded.definition, queue_id = excluded.queue_id, state = excluded.state;
END
$function$;

-- The next version of what is defined; whoever routes reads it anew.
CREATE FUNCTION {schema}.record_change(changed text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM {schema}.permit('subscribe', ARRAY[]::integer[]);
    INSERT INTO {schema}.changes (version, what) SELECT max(version) + 1, changed FROM {schema}.changes;
END
$function$;

-- Take a location's next numbers at once. Who may publish may have numbers.
CREATE FUNCTION {schema}.take_numbers(
    at_location text, how_many bigint, OUT epoch bigint, OUT number bigint, OUT last_number bigint
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM {schema}.permit('publish', ARRAY[]::integer[]);
    SELECT run.epoch, run.number INTO epoch, number FROM {schema}.dispense(at_location, how_many) AS run;
    SELECT place.last_number INTO last_number
    FROM {schema}.locations AS place WHERE place.location = at_location;
END
$function$;

-- Call whoever waits for a message of one of these queues: at most so many, each once. 0 among the queues stands for
-- what isn't routed yet: that calls one who routes, wherever he waits.
CREATE FUNCTION {schema}.call_waiters(of_queues integer[], how_many bigint) RETURNS void
LANGUAGE plpgsql
SET enable_seqscan = off
AS $function$
DECLARE
    called text;
BEGIN
    IF NOT EXISTS (SELECT FROM {schema}.waiters) THEN
        RETURN;
    END IF;
    FOR called IN
        DELETE FROM {schema}.waiters WHERE waiter_id IN (
            SELECT waiter_id FROM {schema}.waiters
            WHERE queue_id = ANY (of_queues) ORDER BY waiter_id LIMIT how_many FOR UPDATE SKIP LOCKED
        ) RETURNING channel
    LOOP
        PERFORM pg_notify(called, '');
    END LOOP;
    IF 0 = ANY (of_queues) THEN
        DELETE FROM {schema}.waiters WHERE waiter_id = (
            SELECT waiter_id FROM {schema}.waiters WHERE routes ORDER BY waiter_id LIMIT 1 FOR UPDATE SKIP LOCKED
        ) RETURNING channel INTO called;
        IF FOUND THEN
            PERFORM pg_notify(called, '');
        END IF;
    END IF;
END
$function$;

-- May the caller route what was published through SQL?
CREATE FUNCTION {schema}.may_route() RETURNS boolean
LANGUAGE sql STABLE
RETURN {schema}.is_owner() OR cardinality({schema}.permitted('route')) > 0;

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
                SELECT (min(due_at) - {schema}.now_us()) / 1e6::float8 FROM {schema}.groups
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

-- A new id for a message: a UUID of version 7, so that ids made later sort later.
CREATE FUNCTION {schema}.new_message_id() RETURNS text
LANGUAGE sql VOLATILE PARALLEL SAFE
-- One expression, so that it isn't called for each message.
RETURN overlay(lpad(to_hex({schema}.now_us() / 1000), 12, '0') PLACING '-' FROM 9 FOR 0) || '-7'
    || substr(gen_random_uuid()::text, 16);

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

-- A part of a message, as SQL gives it to `publish`.
CREATE TYPE {schema}.part AS (name text, content_type text, body bytea);

-- Take a message in, within the caller's transaction: for triggers, procedures and other languages. It gets its ticket
-- when the transaction commits, and is then routed by whoever comes first. Answers with its id. A message whose id was
-- published before is left out. docs/how-to/publish-from-sql.md describes it.
CREATE FUNCTION {schema}.publish(
    type text, body bytea, context jsonb DEFAULT '{{}}', message_id text DEFAULT NULL, content_type text DEFAULT NULL,
    location text DEFAULT 'box', parts {schema}.part[] DEFAULT NULL
) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_variable
DECLARE
    id text := coalesce(message_id, {schema}.new_message_id());
    wrong text;
    permitted integer[];
    arrival bigint;
BEGIN
    PERFORM {schema}.permit('publish', ARRAY[]::integer[]);
    wrong := CASE
        WHEN coalesce(type, '') = '' THEN 'a message needs a type'
        WHEN body IS NULL THEN 'the body of a message can''t be NULL, but it can be empty'
        WHEN octet_length(body) > 536870912 THEN 'the body of a message can have 536870912 bytes at most'
        WHEN content_type = '' THEN 'the content type of a message can''t be empty, but it can be NULL'
        WHEN id = '' THEN 'the id of a message can''t be empty; left out, it is made'
        WHEN coalesce(jsonb_typeof(context), 'null') <> 'object' THEN
            'the context of a message is a JSON object: its properties'
        WHEN coalesce(length(location), 0) NOT BETWEEN 1 AND 128 THEN 'the name of a location has 1 to 128 characters'
        WHEN location <> 'box' AND context -> 'location' <> to_jsonb(location) THEN
            'the location is given twice: as an argument, and as a property'
    END;
    IF wrong IS NULL AND context <> '{{}}' THEN
        SELECT format('the property "%s" %s', left(property.key, 128), looked.problem) INTO wrong
        FROM jsonb_each(context) AS property, LATERAL (SELECT CASE
            WHEN property.key = ANY ('{{type,message_id,ticket,epoch,received_at}}') THEN
                'can''t be given: it is an argument, or the box gives it'
            WHEN jsonb_typeof(property.value) IN ('object', 'array') THEN
                'can''t be an ' || jsonb_typeof(property.value) || ': a string, a number, a boolean or null'
            WHEN jsonb_typeof(property.value) = 'number' AND length(property.value::text) > 100 THEN
                'has more digits than a property can have'
            WHEN property.key = 'location' AND jsonb_typeof(property.value) <> 'null' AND (
                jsonb_typeof(property.value) <> 'string'
                OR length(property.value #>> '{{}}') NOT BETWEEN 1 AND 128
            ) THEN 'is not a location''s name: 1 to 128 characters'
        END AS problem) AS looked
        WHERE looked.problem IS NOT NULL ORDER BY property.key LIMIT 1;
    END IF;
    IF wrong IS NULL AND cardinality(parts) > 0 THEN
        SELECT format('part %s %s', part.number, looked.problem) INTO wrong
        FROM unnest(parts) WITH ORDINALITY AS part (name, content_type, body, number), LATERAL (SELECT CASE
            WHEN coalesce(length(part.name), 0) NOT BETWEEN 1 AND 256 THEN 'needs a name of 1 to 256 characters'
            WHEN part.content_type = '' THEN 'can''t have an empty content type, but it can be NULL'
            WHEN part.body IS NULL THEN 'can''t be NULL, but its body can be empty'
            WHEN part.number > (
                SELECT min(other.number) FROM unnest(parts) WITH ORDINALITY AS other (name, content_type, body, number)
                WHERE other.name = part.name
            ) THEN format('has the name of another one, "%s"', left(part.name, 128))
        END AS problem) AS looked
        WHERE looked.problem IS NOT NULL ORDER BY part.number LIMIT 1;
        IF octet_length(body) + (SELECT sum(octet_length(part.body)) FROM unnest(parts) AS part) > 536870912 THEN
            wrong := 'the body of a message can have 536870912 bytes at most, its parts included';
        END IF;
    END IF;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION '%', wrong USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO {schema}.message_ids (message_id) VALUES (id) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN id;
    END IF;
    IF context ? 'to' AND {schema}.full_for(context) IS NOT NULL THEN
        RAISE EXCEPTION 'the queue "%" is full', context ->> 'to' USING
            ERRCODE = 'configuration_limit_exceeded',
            HINT = 'publish the message again later';
    END IF;
    IF location <> 'box' THEN
        context := context || jsonb_build_object('location', location);
    END IF;
    IF NOT {schema}.is_owner() THEN
        permitted := {schema}.permitted('publish');
    END IF;
    INSERT INTO {schema}.arrivals (location, count, queue_ids, publisher, permitted)
    VALUES (coalesce(context ->> 'location', location), 1, '{{0}}', {schema}.caller(), permitted)
    RETURNING arrival_id INTO arrival;
    INSERT INTO {schema}.spool (arrival_id, position, message_id, type, content_type, context, body, parts)
    VALUES (arrival, 0, id, type, content_type, context, body, nullif(cardinality(parts), 0));
    IF cardinality(parts) > 0 THEN
        INSERT INTO {schema}.message_parts (arrival_id, position, number, name, content_type, body)
        SELECT arrival, 0, part.number, part.name, part.content_type, part.body
        FROM unnest(parts) WITH ORDINALITY AS part (name, content_type, body, number);
    END IF;
    RETURN id;
END
$function$;

-- Does something wait to be routed? NULL: it does, and the caller may not route it.
CREATE FUNCTION {schema}.is_unrouted() RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    PERFORM {schema}.permit_anything();
    IF NOT EXISTS (SELECT FROM {schema}.to_route) THEN
        RETURN FALSE;
    END IF;
    RETURN CASE WHEN {schema}.may_route() THEN TRUE END;
END
$function$;

-- The next messages that wait to be routed, in order of commit: so many, and so many bytes of bodies, but one at least.
-- One transaction at a time routes. `permitted`: the queues that the publisher may publish to; NULL: all.
CREATE FUNCTION {schema}.pending(at_most integer, at_most_bytes bigint)
RETURNS TABLE (
    arrival_id bigint, "position" bigint, message_id text, type text, content_type text, context text, body bytea,
    received_at timestamptz, publisher text, permitted integer[]
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
#variable_conflict use_column
BEGIN
    PERFORM {schema}.permit('route', ARRAY[]::integer[]);
    PERFORM pg_advisory_xact_lock(hashtextextended('seriatim routing', '{schema}'::regnamespace::oid::bigint));
    -- A statement of its own: its snapshot is younger than the lock.
    RETURN QUERY
    SELECT
        stored.arrival_id, stored.position, stored.message_id, stored.type, stored.content_type, stored.context::text,
        stored.body, stored.received_at, found.publisher, found.permitted
    FROM (
        SELECT
            waiting.*, sum(octet_length(body)) OVER (ORDER BY stamp, position) - octet_length(body) AS bytes_before
        FROM (
            SELECT * FROM {schema}.to_route ORDER BY stamp, position LIMIT at_most
        ) AS waiting JOIN {schema}.spool USING (arrival_id, position)
    ) AS found JOIN {schema}.spool AS stored USING (arrival_id, position)
    WHERE found.bytes_before < at_most_bytes
    ORDER BY found.stamp, found.position;
END
$function$;

-- Put messages that wait to be routed into queues, and call whoever waits for them there; the arrays are those of
-- `enter`. Answers FALSE, and does nothing, if the definitions have changed.
CREATE FUNCTION {schema}.route(
    known_version bigint, arrival_ids bigint[], positions bigint[], contexts text[], property_types text[],
    destinations integer[], problems text[],
    entry_places bigint[], entry_queues integer[], entry_groups text[], entry_sequences bigint[],
    entry_sizes bigint[], entry_priorities integer[], entry_problems text[], entry_subscriptions text[],
    entry_waits boolean[]
) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    gone bigint;
BEGIN
    PERFORM {schema}.permit('route', ARRAY[]::integer[]);
    IF NOT {schema}.route_again(
        known_version, arrival_ids, positions, contexts, property_types, destinations, problems, entry_places,
        entry_queues, entry_groups, entry_sequences, entry_sizes, entry_priorities, entry_problems,
        entry_subscriptions, entry_waits
    ) THEN
        RETURN FALSE;
    END IF;
    DELETE FROM {schema}.to_route AS known USING unnest(arrival_ids, positions) AS message (arrival_id, position)
    WHERE known.arrival_id = message.arrival_id AND known.position = message.position;
    GET DIAGNOSTICS gone = ROW_COUNT;
    IF gone <> cardinality(arrival_ids) THEN
        RAISE EXCEPTION 'these messages don''t wait to be routed' USING ERRCODE = 'insufficient_privilege';
    END IF;
    PERFORM {schema}.call_waiters(ARRAY(SELECT DISTINCT unnest(entry_queues)), gone);
    RETURN TRUE;
END
$function$;

-- Lock the next groups of a queue that have something to do, or the named one. `unrouted`: something that was published
-- through SQL waits to be routed. `many`: more messages wait to be judged than a turn of one group is worth.
CREATE FUNCTION {schema}.lock_groups(
    of_queue integer, named text, how_many integer, at_us bigint,
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
        WHEN named IS NULL THEN {schema}.lock_next(of_queue, how_many, now_us)
        WHEN {schema}.lock_group(of_queue, named, now_us) THEN ARRAY[named]
        ELSE ARRAY[]::text[]
    END;
    SELECT
        (SELECT max(change.version) FROM {schema}.changes AS change),
        EXISTS (SELECT FROM {schema}.to_route),
        named IS NULL AND EXISTS (
            SELECT FROM {schema}.entries AS entry WHERE entry.queue_id = of_queue AND entry.status = 'arrived'
            ORDER BY entry.rank OFFSET 40
        )
    INTO version, unrouted, many;
END
$function$;

-- Lock the next groups of a queue that have something to do, to judge them before they are asked for; none if somebody
-- does that already. What is judged could be judged again: nobody has to wait until it is on disk.
CREATE FUNCTION {schema}.lock_ahead(
    of_queue integer, how_many integer, at_us bigint,
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
        THEN {schema}.lock_next(of_queue, how_many, now_us)
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
        SELECT known.group_key FROM {schema}.groups AS known
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
    FROM {schema}.groups
    WHERE queue_id = of_queue AND group_key = ANY (of_groups);
END
$function$;

-- The entries of a turn's groups, as columns: all that arrived (code 0), in order of commit; all that are held (1), in
-- order of arrival; and the first that are queued (2), by ordinal. The caller has locked the groups.
-- `unrouted`: something that was published through SQL waits to be routed. What was committed after that stays out:
-- whoever sees it sees that, too, for it is one statement.
CREATE FUNCTION {schema}.turn_entries(of_queue integer, of_groups text[], at_most integer)
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
                SELECT array_agg(subscription_id) FROM {schema}.subscriptions
                WHERE queue_id = of_queue AND state <> 'started'
            ) THEN 9223372036854775807
            ELSE (extract(epoch FROM visible_at) * 1000000)::bigint END) AS visible,
        array_agg(arrival) AS arrivals,
        array_agg(ordinal) AS ordinals,
        array_agg(late) AS late,
        array_agg(waits) AS waits,
        EXISTS (SELECT FROM {schema}.to_route) AS unrouted
    FROM (
        SELECT
            array_position(of_groups, entry.group_key)::bigint - 1 AS place, 0 AS code, entry.*,
            run.stamp AS first_by, entry.position AS then_by
        FROM {schema}.entries AS entry JOIN {schema}.tickets AS run USING (arrival_id)
        WHERE entry.queue_id = of_queue AND entry.group_key = ANY (of_groups) AND entry.status = 'arrived'
            AND run.stamp < coalesce((SELECT min(stamp) FROM {schema}.to_route), 9223372036854775807)
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
        entry.priority,
        entry.subscription_ids,
        stored.parts
    FROM unnest(of_entries) WITH ORDINALITY AS handed (entry_id, at)
    JOIN {schema}.entries AS entry USING (entry_id)
    JOIN {schema}.spool AS stored USING (arrival_id, position)
    JOIN {schema}.tickets AS run USING (arrival_id)
    JOIN {schema}.locations AS place USING (location)
    ORDER BY handed.at;
END
$function$;

-- The next messages of a queue without order, of lowest rank first, each locked; those that others have are passed over.
CREATE FUNCTION {schema}.take_unordered(of_queue integer, at_most integer)
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
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
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
        entry.priority,
        entry.subscription_ids,
        stored.parts
    FROM (
        SELECT * FROM {schema}.entries
        WHERE queue_id = of_queue AND status = 'arrived' AND (visible_at IS NULL OR visible_at <= clock_timestamp())
            AND (subscription_ids <> '{{}}' AND subscription_ids <@ (
                SELECT array_agg(subscription_id) FROM {schema}.subscriptions
                WHERE queue_id = of_queue AND state <> 'started'
            )) IS NOT TRUE
        ORDER BY rank LIMIT at_most
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS entry
    JOIN {schema}.spool AS stored USING (arrival_id, position)
    JOIN {schema}.tickets AS run USING (arrival_id)
    JOIN {schema}.locations AS place USING (location)
    ORDER BY entry.rank, entry.entry_id;
END
$function$;

-- How large the tables were, now and then, for a week: what has come since then. Estimates of PostgreSQL's, as the sizes
-- that it is compared with. Written by the clean-up.
CREATE TABLE {schema}.samples (
    taken_at timestamptz NOT NULL DEFAULT now(),
    name text NOT NULL,
    rows bigint NOT NULL,
    size_bytes bigint NOT NULL,
    PRIMARY KEY (taken_at, name)
);

-- Forget groups of a queue that were idle since before a moment, from a key on, in steps of so many: they leave no row,
-- and one that comes again begins in a higher incarnation. Those that somebody has, or that have anything to wait for, that
-- an operator or a fault has stopped, or whose instance runs, stay. Answers how many, and behind which key it goes on;
-- NULL: that was all.
CREATE FUNCTION {schema}.forget_expired(
    of_queue integer, before timestamptz, after_key text, how_many integer, OUT forgotten bigint, OUT through text
)
LANGUAGE plpgsql
AS $function$
DECLARE
    candidates text[];
    mine text[];
    latest integer;
BEGIN
    SELECT array_agg(group_key ORDER BY group_key), count(*) INTO candidates, forgotten FROM (
        SELECT group_key FROM {schema}.groups
        WHERE queue_id = of_queue AND group_key > after_key AND touched_at < before
            AND ready_rank IS NULL AND due_at IS NULL AND flags & 24 = 0
        ORDER BY group_key LIMIT how_many
    ) AS idle;
    through := CASE WHEN forgotten = how_many THEN candidates[how_many] END;
    forgotten := 0;
    IF candidates IS NULL THEN
        RETURN;
    END IF;
    -- Before the groups, as everybody takes it who takes both.
    PERFORM pg_advisory_xact_lock(hashtextextended('seriatim definitions', '{schema}'::regnamespace::oid::bigint));
    SELECT array_agg(group_key) INTO mine FROM unnest(candidates) AS wanted (group_key)
    WHERE pg_try_advisory_xact_lock({schema}.group_lock(of_queue, group_key));
    -- A statement of its own: what it sees is younger than the locks.
    WITH gone AS (
        DELETE FROM {schema}.groups AS known
        WHERE known.queue_id = of_queue AND known.group_key = ANY (mine) AND known.touched_at < before
            AND known.ready_rank IS NULL AND known.due_at IS NULL AND known.flags & 24 = 0
            AND NOT EXISTS (
                SELECT FROM {schema}.entries AS entry
                WHERE entry.queue_id = of_queue AND entry.group_key = known.group_key
            ) AND NOT EXISTS (
                SELECT FROM {schema}.requests AS request
                WHERE request.queue_id = of_queue AND request.group_key = known.group_key
            ) AND NOT EXISTS (
                SELECT FROM {schema}.instances AS instance
                WHERE instance.queue_id = of_queue AND instance.group_key = known.group_key
            )
        RETURNING known.incarnation
    )
    SELECT count(*), max(incarnation) + 1 INTO forgotten, latest FROM gone;
    UPDATE {schema}.queues SET incarnation = latest WHERE queue_id = of_queue AND incarnation < latest;
    IF FOUND THEN
        INSERT INTO {schema}.changes (version, what)
        SELECT max(version) + 1, 'groups of a queue that had expired were forgotten' FROM {schema}.changes;
    END IF;
END
$function$;

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

-- Dialogs: conversations of two services, each message an entry of the receiver's queue, in the group of its side.
--
-- A side writes its own row, and takes a KEY SHARE lock on the other one's while it sends; so both send at once. Who ends
-- takes both rows FOR UPDATE, in the order of their handles, and so waits until nobody sends. The lock of the group comes
-- first, which a turn has. What a verb does in a state is in kernel/dialog.py; `dialog_rules` has the same rows.

-- Which messages a dialog carries, and who sends each. Rows are never changed.
CREATE TABLE {schema}.contracts (
    contract text COLLATE "C" PRIMARY KEY CHECK (length(contract) BETWEEN 1 AND 128),
    definition jsonb NOT NULL
);
INSERT INTO {schema}.contracts (contract, definition)
VALUES ('DEFAULT', '{{"version": 1, "name": "DEFAULT", "types": {{"DEFAULT": "any"}}}}');

-- The ends of dialogs.
CREATE TABLE {schema}.services (
    service text COLLATE "C" PRIMARY KEY CHECK (length(service) BETWEEN 1 AND 128),
    queue_id integer NOT NULL REFERENCES {schema}.queues,
    definition jsonb NOT NULL
);
CREATE INDEX services_of_queue ON {schema}.services (queue_id);

-- What a verb does to a side in a state: the state afterwards, the message that comes of it, or why it is refused.
CREATE TABLE {schema}.dialog_rules (
    verb text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL,
    becomes text COLLATE "C" NOT NULL,
    tells text,
    refusal text,
    PRIMARY KEY (verb, state)
);
INSERT INTO {schema}.dialog_rules (verb, state, becomes, tells, refusal) VALUES
    ('send', 'SO', 'CO', NULL, NULL),
    ('send', 'SI', 'CO', NULL, NULL),
    ('send', 'CO', 'CO', NULL, NULL),
    ('send', 'DI', 'DI', NULL, 'the other side has ended the dialog'),
    ('send', 'DO', 'DO', NULL, 'this side has ended the dialog'),
    ('send', 'ER', 'ER', NULL, 'the dialog has failed'),
    ('send', 'CD', 'CD', NULL, 'the dialog is closed'),
    ('receive', 'SO', 'SO', NULL, NULL),
    ('receive', 'SI', 'CO', NULL, NULL),
    ('receive', 'CO', 'CO', NULL, NULL),
    ('receive', 'DI', 'DI', NULL, NULL),
    ('receive', 'DO', 'DO', NULL, NULL),
    ('receive', 'ER', 'ER', NULL, NULL),
    ('receive', 'CD', 'CD', NULL, NULL),
    ('end', 'SO', 'CD', NULL, NULL),
    ('end', 'SI', 'DO', 'EndDialog', NULL),
    ('end', 'CO', 'DO', 'EndDialog', NULL),
    ('end', 'DI', 'CD', NULL, NULL),
    ('end', 'DO', 'DO', NULL, NULL),
    ('end', 'ER', 'CD', NULL, NULL),
    ('end', 'CD', 'CD', NULL, NULL),
    ('end with error', 'SO', 'CD', NULL, NULL),
    ('end with error', 'SI', 'DO', 'Error', NULL),
    ('end with error', 'CO', 'DO', 'Error', NULL),
    ('end with error', 'DI', 'CD', NULL, NULL),
    ('end with error', 'DO', 'DO', NULL, NULL),
    ('end with error', 'ER', 'CD', NULL, NULL),
    ('end with error', 'CD', 'CD', NULL, NULL),
    ('clean up', 'SO', 'CD', NULL, NULL),
    ('clean up', 'SI', 'CD', NULL, NULL),
    ('clean up', 'CO', 'CD', NULL, NULL),
    ('clean up', 'DI', 'CD', NULL, NULL),
    ('clean up', 'DO', 'CD', NULL, NULL),
    ('clean up', 'ER', 'CD', NULL, NULL),
    ('clean up', 'CD', 'CD', NULL, NULL),
    ('set timer', 'SO', 'SO', NULL, NULL),
    ('set timer', 'SI', 'SI', NULL, NULL),
    ('set timer', 'CO', 'CO', NULL, NULL),
    ('set timer', 'DI', 'DI', NULL, NULL),
    ('set timer', 'DO', 'DO', NULL, 'this side has ended the dialog'),
    ('set timer', 'ER', 'ER', NULL, 'the dialog has failed'),
    ('set timer', 'CD', 'CD', NULL, 'the dialog is closed'),
    ('move', 'SO', 'SO', NULL, NULL),
    ('move', 'SI', 'SI', NULL, NULL),
    ('move', 'CO', 'CO', NULL, NULL),
    ('move', 'DI', 'DI', NULL, NULL),
    ('move', 'DO', 'DO', NULL, 'this side has ended the dialog'),
    ('move', 'ER', 'ER', NULL, NULL),
    ('move', 'CD', 'CD', NULL, 'the dialog is closed'),
    ('end comes', 'SO', 'SO', NULL, NULL),
    ('end comes', 'SI', 'DI', 'EndDialog', NULL),
    ('end comes', 'CO', 'DI', 'EndDialog', NULL),
    ('end comes', 'DI', 'DI', NULL, NULL),
    ('end comes', 'DO', 'CD', NULL, NULL),
    ('end comes', 'ER', 'ER', NULL, NULL),
    ('end comes', 'CD', 'CD', NULL, NULL),
    ('error comes', 'SO', 'SO', NULL, NULL),
    ('error comes', 'SI', 'ER', 'Error', NULL),
    ('error comes', 'CO', 'ER', 'Error', NULL),
    ('error comes', 'DI', 'DI', NULL, NULL),
    ('error comes', 'DO', 'CD', NULL, NULL),
    ('error comes', 'ER', 'ER', NULL, NULL),
    ('error comes', 'CD', 'CD', NULL, NULL),
    ('timer fires', 'SO', 'SO', 'Timer', NULL),
    ('timer fires', 'SI', 'SI', 'Timer', NULL),
    ('timer fires', 'CO', 'CO', 'Timer', NULL),
    ('timer fires', 'DI', 'DI', 'Timer', NULL),
    ('timer fires', 'DO', 'DO', NULL, NULL),
    ('timer fires', 'ER', 'ER', NULL, NULL),
    ('timer fires', 'CD', 'CD', NULL, NULL),
    ('lifetime ends', 'SO', 'ER', 'Error', NULL),
    ('lifetime ends', 'SI', 'ER', 'Error', NULL),
    ('lifetime ends', 'CO', 'ER', 'Error', NULL),
    ('lifetime ends', 'DI', 'ER', 'Error', NULL),
    ('lifetime ends', 'DO', 'CD', NULL, NULL),
    ('lifetime ends', 'ER', 'ER', NULL, NULL),
    ('lifetime ends', 'CD', 'CD', NULL, NULL),
    ('invalid comes', 'SO', 'SO', NULL, NULL),
    ('invalid comes', 'SI', 'ER', 'Error', NULL),
    ('invalid comes', 'CO', 'ER', 'Error', NULL),
    ('invalid comes', 'DI', 'ER', 'Error', NULL),
    ('invalid comes', 'DO', 'DO', NULL, NULL),
    ('invalid comes', 'ER', 'ER', NULL, NULL),
    ('invalid comes', 'CD', 'CD', NULL, NULL);

-- The sides of dialogs. `to_services`: the other side's service; of a monolog all of them. `send_sequence`: the number
-- that it sends next. `begun_by`: who made it needs no lock for it. `due_at`: when its timer or its lifetime ends.
CREATE TABLE {schema}.endpoints (
    handle uuid PRIMARY KEY,
    conversation_id uuid NOT NULL,
    is_initiator boolean NOT NULL,
    is_monolog boolean NOT NULL DEFAULT FALSE,
    service text COLLATE "C" NOT NULL,
    queue_id integer NOT NULL REFERENCES {schema}.queues,
    to_services text[] COLLATE "C" NOT NULL,
    contract text COLLATE "C" NOT NULL,
    group_id uuid NOT NULL,
    state text COLLATE "C" NOT NULL CHECK (state IN ('SO', 'SI', 'CO', 'DI', 'DO', 'ER', 'CD')),
    priority smallint NOT NULL CHECK (priority BETWEEN 1 AND 10),
    encryption boolean NOT NULL,
    retains boolean NOT NULL,
    send_sequence bigint NOT NULL DEFAULT 0,
    begun_by xid8 NOT NULL DEFAULT pg_current_xact_id(),
    began_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    closed_at timestamptz,
    expires_at timestamptz,
    timer_at timestamptz,
    due_at timestamptz GENERATED ALWAYS AS (least(timer_at, expires_at)) STORED,
    error_code integer,
    error text,
    UNIQUE (conversation_id, is_initiator, service)
) WITH (fillfactor = 70);
CREATE INDEX endpoints_due ON {schema}.endpoints (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX endpoints_closed ON {schema}.endpoints (closed_at) WHERE closed_at IS NOT NULL;
CREATE INDEX endpoints_of_group ON {schema}.endpoints (queue_id, group_id);
CREATE INDEX endpoints_of_contract ON {schema}.endpoints (contract);

-- What can't be delivered yet, because the other side isn't there; in order.
CREATE TABLE {schema}.transmission (
    transmission_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    handle uuid NOT NULL REFERENCES {schema}.endpoints ON DELETE CASCADE,
    to_service text COLLATE "C" NOT NULL,
    sequence bigint NOT NULL,
    type text COLLATE "C" NOT NULL,
    content_type text,
    body bytea NOT NULL,
    sent_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX transmission_of_service ON {schema}.transmission (to_service, handle, transmission_id);
CREATE INDEX transmission_of_dialog ON {schema}.transmission (handle);

-- The messages of dialogs whose service keeps them, until it ends.
CREATE TABLE {schema}.dialog_messages (
    history_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    handle uuid NOT NULL REFERENCES {schema}.endpoints ON DELETE CASCADE,
    sent boolean NOT NULL,
    sequence bigint,
    type text COLLATE "C" NOT NULL,
    content_type text,
    body bytea NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX dialog_messages_of_dialog ON {schema}.dialog_messages (handle, history_id);

-- The state of a side: where its lifetime is over it has failed, whether somebody has noticed it or not.
CREATE FUNCTION {schema}.state_now(state text, expires_at timestamptz) RETURNS text
LANGUAGE sql VOLATILE
RETURN CASE WHEN expires_at <= clock_timestamp() AND state IN ('SO', 'SI', 'CO', 'DI') THEN 'ER' ELSE state END;

-- Raise what a verb was refused for: for those who call it from SQL.
CREATE FUNCTION {schema}.refuse(refused text, what text, remedy text) RETURNS void
LANGUAGE plpgsql
AS $function$
BEGIN
    IF refused IS NOT NULL THEN
        RAISE EXCEPTION '%', what USING
            ERRCODE = CASE refused WHEN 'usage' THEN 'invalid_parameter_value' ELSE 'object_not_in_prerequisite_state' END,
            HINT = coalesce(remedy, '');
    END IF;
END
$function$;

-- Lock the groups of some dialogs, in the order of their ids; what the transaction has begun itself nobody else knows.
CREATE FUNCTION {schema}.lock_dialogs(handles uuid[]) RETURNS void
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $function$
DECLARE
    wanted bigint[];
    locked bigint[] := ARRAY[]::bigint[];
BEGIN
    LOOP
        SELECT coalesce(array_agg(one.lock ORDER BY one.group_id, one.queue_id), ARRAY[]::bigint[]) INTO wanted FROM (
            SELECT DISTINCT
                known.group_id, known.queue_id, {schema}.group_lock(known.queue_id, known.group_id::text) AS lock
            FROM {schema}.endpoints AS known
            WHERE known.handle = ANY (handles) AND known.begun_by <> pg_current_xact_id()
        ) AS one;
        -- A dialog may have been moved while its group was waited for.
        EXIT WHEN wanted <@ locked;
        PERFORM pg_advisory_xact_lock(one) FROM unnest(wanted) AS one;
        locked := wanted;
    END LOOP;
END
$function$;

-- Put messages into the queues of those who receive them; `receivers` are their handles. Some go `ahead` of what is
-- queued there: then a turn has to look, rather than hand out what it finds.
CREATE FUNCTION {schema}.post(
    receivers uuid[], kinds text[], content_types text[], bodies bytea[], sequences bigint[], ahead boolean
) RETURNS void
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $function$
DECLARE
    moment_us bigint := {schema}.now_us();
BEGIN
    WITH given AS MATERIALIZED (
        SELECT one.place, one.type, one.content_type, one.body, one.sequence, known.*
        FROM unnest(receivers, kinds, content_types, bodies, sequences) WITH ORDINALITY
            AS one (handle, type, content_type, body, sequence, place)
        JOIN {schema}.endpoints AS known USING (handle)
    ), arrived AS (
        INSERT INTO {schema}.arrivals (location, count, queue_ids)
        SELECT given.service, count(*), array_agg(DISTINCT given.queue_id) FROM given GROUP BY given.service
        RETURNING arrival_id, location
    ), placed AS MATERIALIZED (
        SELECT given.*, arrived.arrival_id,
            row_number() OVER (PARTITION BY given.service ORDER BY given.place) - 1 AS position
        FROM given JOIN arrived ON arrived.location = given.service
    ), spooled AS (
        INSERT INTO {schema}.spool (arrival_id, position, message_id, type, content_type, context, body, destinations)
        SELECT
            placed.arrival_id, placed.position, {schema}.new_message_id(), placed.type, placed.content_type,
            jsonb_build_object('dialog', jsonb_build_object(
                'handle', placed.handle, 'conversation_id', placed.conversation_id, 'service', placed.service,
                'far_service', placed.to_services[1], 'contract', placed.contract, 'sequence', placed.sequence,
                'is_initiator', placed.is_initiator, 'is_monolog', placed.is_monolog
            )), placed.body, 1
        FROM placed
    ), entered AS (
        INSERT INTO {schema}.entries (queue_id, group_key, rank, arrival_id, position, priority, ahead)
        SELECT
            placed.queue_id, placed.group_id::text, moment_us - (placed.priority - 5) * 10000000, placed.arrival_id,
            placed.position, placed.priority, post.ahead
        FROM placed ORDER BY placed.place
    )
    INSERT INTO {schema}.dialog_messages (handle, sent, sequence, type, content_type, body)
    SELECT placed.handle, FALSE, placed.sequence, placed.type, placed.content_type, placed.body
    FROM placed WHERE placed.retains ORDER BY placed.place;
    IF ahead THEN
        INSERT INTO {schema}.requests (queue_id, group_key, action, rank)
        SELECT known.queue_id, known.group_id::text, 'look', moment_us
        FROM {schema}.endpoints AS known WHERE known.handle = ANY (receivers);
    END IF;
END
$function$;

-- An Error's body.
CREATE FUNCTION {schema}.error_body(code integer, why text) RETURNS bytea
LANGUAGE sql STABLE
RETURN convert_to(jsonb_build_object('code', code, 'text', why)::text, 'UTF8');

-- Take away what waits for a side in its queue, but for messages that its turn has in hand; with a reason it is set
-- aside, else it goes. The caller has the lock of its group. Answers with the entries that are set aside.
CREATE FUNCTION {schema}.drop_unread(of_handle uuid, in_hand text[], why text, from_sequence bigint DEFAULT NULL)
RETURNS bigint[]
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $function$
DECLARE
    own record;
    gone bigint;
    set_aside bigint[];
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
    SELECT count(*), coalesce(array_agg(unread.entry_id ORDER BY unread.entry_id) FILTER (WHERE why IS NOT NULL), '{{}}')
    INTO gone, set_aside FROM unread;
    IF gone > 0 THEN
        INSERT INTO {schema}.requests (queue_id, group_key, action, rank)
        VALUES (own.queue_id, own.group_id::text, 'look', {schema}.now_us());
    END IF;
    RETURN set_aside;
END
$function$;

-- A side comes into a state; one that is closed has no timer any more, and keeps nothing.
CREATE FUNCTION {schema}.become(of_handle uuid, new_state text, code integer DEFAULT NULL, why text DEFAULT NULL)
RETURNS void
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
AS $function$
BEGIN
    UPDATE {schema}.endpoints AS known SET
        state = new_state,
        timer_at = CASE WHEN new_state IN ('DO', 'ER', 'CD') THEN NULL ELSE known.timer_at END,
        expires_at = CASE WHEN new_state IN ('ER', 'CD') THEN NULL ELSE known.expires_at END,
        closed_at = CASE WHEN new_state = 'CD' THEN coalesce(known.closed_at, clock_timestamp()) END,
        error_code = coalesce(code, known.error_code), error = coalesce(why, known.error)
    WHERE known.handle = of_handle;
    IF new_state IN ('DO', 'CD') THEN
        DELETE FROM {schema}.dialog_messages WHERE handle = of_handle;
    END IF;
END
$function$;

-- What the other side, or the clock, does to a side: its state, and the message that tells it. The caller has its row.
CREATE FUNCTION {schema}.happen(
    to_handle uuid, what_verb text, sequence bigint DEFAULT NULL, code integer DEFAULT NULL, why text DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
AS $function$
DECLARE
    rule record;
BEGIN
    SELECT one.* INTO rule FROM {schema}.endpoints AS known
    JOIN {schema}.dialog_rules AS one ON one.verb = what_verb AND one.state = known.state
    WHERE known.handle = to_handle;
    IF rule.becomes <> rule.state THEN
        PERFORM {schema}.become(to_handle, rule.becomes, code, why);
    END IF;
    IF rule.tells IS NOT NULL THEN
        PERFORM {schema}.post(
            ARRAY[to_handle], ARRAY[rule.tells], ARRAY[CASE WHEN rule.tells = 'Error' THEN 'application/json' END],
            ARRAY[CASE WHEN rule.tells = 'Error' THEN {schema}.error_body(code, why) ELSE '' END],
            ARRAY[CASE WHEN rule.tells = 'EndDialog' THEN sequence END], rule.tells <> 'EndDialog'
        );
    END IF;
END
$function$;

-- Make the other sides of dialogs that haven't any, as far as there are services that take them.
CREATE FUNCTION {schema}.add_targets(of_handles uuid[]) RETURNS void
LANGUAGE sql
AS $function$
    INSERT INTO {schema}.endpoints (
        handle, conversation_id, is_initiator, is_monolog, service, queue_id, to_services, contract, group_id, state,
        priority, encryption, retains, expires_at
    )
    SELECT
        gen_random_uuid(), own.conversation_id, FALSE, own.is_monolog, place.service, place.queue_id,
        ARRAY[own.service], own.contract, gen_random_uuid(), 'SI', own.priority, own.encryption,
        coalesce((place.definition ->> 'retention')::boolean, FALSE), own.expires_at
    FROM {schema}.endpoints AS own
    JOIN {schema}.services AS place ON place.service = ANY (own.to_services)
    WHERE own.handle = ANY (of_handles) AND own.is_initiator AND place.definition -> 'contracts' ? own.contract
    ON CONFLICT (conversation_id, is_initiator, service) DO NOTHING
$function$;

-- Begin a dialog, or a monolog to several services. Answers with its handle, or with why it is refused.
CREATE FUNCTION {schema}.try_begin(
    from_service text, to_services text[], by_contract text, lifetime interval, related_to uuid, in_group uuid,
    its_priority integer, encryption boolean, is_monolog boolean, given uuid,
    OUT handle uuid, OUT refused text, OUT what text, OUT remedy text
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $function$
#variable_conflict use_variable
DECLARE
    own record;
    related record;
    its_group uuid := in_group;
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[]::integer[]);
    PERFORM {schema}.hold_definitions();
    SELECT known.queue_id, coalesce((known.definition ->> 'retention')::boolean, FALSE) AS retains INTO own
    FROM {schema}.services AS known WHERE known.service = from_service COLLATE "C";
    refused := 'usage';
    IF own IS NULL THEN
        what := format('there is no service "%s"', left(from_service, 300));
        remedy := 'a dialog begins at a service of this box: define it';
        RETURN;
    END IF;
    PERFORM {schema}.permit('receive', ARRAY[own.queue_id]);
    IF NOT EXISTS (SELECT FROM {schema}.contracts AS known WHERE known.contract = by_contract COLLATE "C") THEN
        what := format('there is no contract "%s"', left(by_contract, 300));
        remedy := 'define it';
        RETURN;
    END IF;
    IF NOT coalesce(its_priority BETWEEN 1 AND 10, FALSE) THEN
        what := 'a priority is from 1 to 10';
        RETURN;
    END IF;
    IF lifetime <= '0' THEN
        what := 'a lifetime is more than 0';
        RETURN;
    END IF;
    IF cardinality(array_remove(to_services, NULL)) = 0 OR EXISTS (
        SELECT FROM unnest(to_services) AS one WHERE coalesce(length(one), 0) NOT BETWEEN 1 AND 128
    ) OR cardinality(to_services) <> (SELECT count(DISTINCT one) FROM unnest(to_services) AS one) THEN
        what := 'a service''s name has 1 to 128 characters, and each is given once';
        RETURN;
    END IF;
    IF related_to IS NOT NULL AND in_group IS NOT NULL THEN
        what := 'related_to and group say the same';
        remedy := 'give one of them';
        RETURN;
    END IF;
    IF related_to IS NOT NULL THEN
        PERFORM {schema}.lock_dialogs(ARRAY[related_to]);
        SELECT known.queue_id, known.group_id INTO related
        FROM {schema}.endpoints AS known WHERE known.handle = related_to AND known.state <> 'CD';
        IF related IS NULL THEN
            what := format('there is no dialog with the handle %s', related_to);
            RETURN;
        END IF;
        IF related.queue_id <> own.queue_id THEN
            what := 'the related dialog has another queue';
            remedy := 'a conversation group is of one queue';
            RETURN;
        END IF;
        its_group := related.group_id;
    ELSIF in_group IS NOT NULL THEN
        PERFORM pg_advisory_xact_lock({schema}.group_lock(own.queue_id, in_group::text));
    END IF;
    handle := coalesce(given, gen_random_uuid());
    INSERT INTO {schema}.endpoints (
        handle, conversation_id, is_initiator, is_monolog, service, queue_id, to_services, contract, group_id, state,
        priority, encryption, retains, expires_at
    ) VALUES (
        handle, gen_random_uuid(), TRUE, is_monolog, from_service, own.queue_id, to_services, by_contract,
        coalesce(its_group, gen_random_uuid()), 'SO', its_priority, coalesce(encryption, FALSE), own.retains,
        clock_timestamp() + lifetime
    ) ON CONFLICT ON CONSTRAINT endpoints_pkey DO NOTHING;
    IF NOT FOUND THEN
        what := format('there is a dialog with the handle %s already', handle);
        remedy := 'let the box give the handle';
        handle := NULL;
        RETURN;
    END IF;
    refused := NULL;
END
$function$;

-- Begin a dialog, within the caller's transaction: for triggers, procedures and other languages.
CREATE FUNCTION {schema}.begin_dialog(
    from_service text, to_service text, contract text DEFAULT 'DEFAULT', lifetime interval DEFAULT NULL,
    related_to uuid DEFAULT NULL, in_group uuid DEFAULT NULL, priority integer DEFAULT 5, handle uuid DEFAULT NULL
) RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    done record;
BEGIN
    done := {schema}.try_begin(
        from_service, ARRAY[to_service], contract, lifetime, related_to, in_group, priority, FALSE, FALSE, handle
    );
    PERFORM {schema}.refuse(done.refused, done.what, done.remedy);
    RETURN done.handle;
END
$function$;

-- Begin one stream to several services.
CREATE FUNCTION {schema}.begin_monolog(
    from_service text, to_services text[], contract text DEFAULT 'DEFAULT', lifetime interval DEFAULT NULL,
    priority integer DEFAULT 5
) RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    done record;
BEGIN
    done := {schema}.try_begin(
        from_service, to_services, contract, lifetime, NULL, NULL, priority, FALSE, TRUE, NULL
    );
    PERFORM {schema}.refuse(done.refused, done.what, done.remedy);
    RETURN done.handle;
END
$function$;

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

-- Send messages in dialogs, all or none; in their order. What can't be delivered yet waits in the transmission queue.
CREATE FUNCTION {schema}.try_send(
    handles uuid[], kinds text[], content_types text[], bodies bytea[],
    OUT refused text, OUT what text, OUT remedy text
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $function$
#variable_conflict use_column
DECLARE
    own record;
    wrong record;
    routed record;
    crowded integer[];
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[]::integer[]);
    PERFORM {schema}.hold_definitions();
    PERFORM {schema}.lock_dialogs(handles);
    PERFORM FROM {schema}.endpoints AS known WHERE known.handle = ANY (handles) ORDER BY known.handle FOR NO KEY UPDATE;
    SELECT
        array_agg(known.queue_id) AS queue_ids, bool_or(known.state = 'SO') AS begins,
        array_agg(known.conversation_id) AS conversations
    INTO own FROM {schema}.endpoints AS known WHERE known.handle = ANY (handles);
    PERFORM {schema}.permit('receive', coalesce(own.queue_ids, ARRAY[]::integer[]));
    SELECT
        CASE WHEN rule.refusal IS NULL THEN 'usage' ELSE 'refused' END AS refused,
        CASE
            WHEN known.handle IS NULL THEN format('there is no dialog with the handle %s', one.handle)
            WHEN rule.refusal IS NOT NULL THEN format('the dialog %s takes no message: %s', one.handle, rule.refusal)
            WHEN known.is_monolog AND NOT known.is_initiator THEN
                'the dialog is a monolog: only the side that began it sends'
            WHEN one.type IN ('EndDialog', 'Error', 'Timer') THEN
                format('a message "%s" is the box''s own, and no application sends it', one.type)
            WHEN sender.who IS NULL THEN
                format('the contract "%s" has no message type "%s"', known.contract, left(one.type, 300))
            WHEN sender.who NOT IN ('any', CASE WHEN known.is_initiator THEN 'initiator' ELSE 'target' END) THEN
                format('only the %s sends "%s" under the contract "%s"', sender.who, one.type, known.contract)
            WHEN one.body IS NULL THEN 'the body of a message can''t be NULL, but it can be empty'
            WHEN octet_length(one.body) > 536870912 THEN 'the body of a message can have 536870912 bytes at most'
        END AS what,
        CASE
            WHEN known.handle IS NULL THEN 'a handle is known until half an hour after its dialog has ended'
            WHEN rule.refusal IS NOT NULL THEN 'begin another one'
            WHEN sender.who IS NULL THEN (
                SELECT 'its types: ' || string_agg(kind, ', ' ORDER BY kind)
                FROM jsonb_object_keys(agreed.definition -> 'types') AS kind
            )
        END AS remedy
    INTO wrong
    FROM unnest(handles, kinds, bodies) WITH ORDINALITY AS one (handle, type, body, place)
    LEFT JOIN {schema}.endpoints AS known USING (handle)
    LEFT JOIN {schema}.contracts AS agreed USING (contract)
    LEFT JOIN {schema}.dialog_rules AS rule
        ON rule.verb = 'send' AND rule.state = {schema}.state_now(known.state, known.expires_at)
    CROSS JOIN LATERAL (SELECT agreed.definition -> 'types' ->> one.type AS who) AS sender
    WHERE known.handle IS NULL OR rule.refusal IS NOT NULL OR known.is_monolog AND NOT known.is_initiator
        OR (sender.who IN ('any', CASE WHEN known.is_initiator THEN 'initiator' ELSE 'target' END)) IS NOT TRUE
        OR one.body IS NULL OR octet_length(one.body) > 536870912
    ORDER BY one.place LIMIT 1;
    IF FOUND THEN
        refused := wrong.refused;
        what := wrong.what;
        remedy := wrong.remedy;
        RETURN;
    END IF;
    IF own.begins THEN
        PERFORM {schema}.add_targets(handles);
    END IF;
    PERFORM FROM {schema}.endpoints AS far
    WHERE far.conversation_id = ANY (own.conversations) AND far.handle <> ALL (handles)
    ORDER BY far.handle FOR KEY SHARE;
    crowded := {schema}.full_among(ARRAY(
        SELECT known.queue_id FROM {schema}.endpoints AS known WHERE known.conversation_id = ANY (own.conversations)
    ));
    WITH given AS (
        SELECT *, row_number() OVER (PARTITION BY handle ORDER BY place) - 1 AS nth
        FROM unnest(handles, kinds, content_types, bodies) WITH ORDINALITY
            AS one (handle, type, content_type, body, place)
    ), counted AS (
        UPDATE {schema}.endpoints AS known SET send_sequence = known.send_sequence + mine.messages, state = rule.becomes
        FROM (SELECT handle, count(*) AS messages FROM given GROUP BY handle) AS mine, {schema}.dialog_rules AS rule
        WHERE known.handle = mine.handle AND rule.verb = 'send' AND rule.state = known.state
        RETURNING known.*, known.send_sequence - mine.messages AS base
    ), addressed AS MATERIALIZED (
        SELECT
            given.place, given.handle, given.type, given.content_type, given.body, counted.base + given.nth AS sequence,
            far.handle AS receiver, far.queue_id, address.to_service, counted.retains,
            CASE
                WHEN far.state IN ('SO', 'SI', 'CO', 'DI') THEN CASE
                    WHEN far.queue_id = ANY (crowded) OR EXISTS (
                        SELECT FROM {schema}.transmission AS before
                        WHERE before.to_service = address.to_service COLLATE "C" AND before.handle = given.handle
                    ) THEN 'waits' ELSE 'posted' END
                WHEN counted.is_monolog AND far.handle IS NOT NULL THEN 'left out' ELSE 'waits' END AS becomes
        FROM given JOIN counted USING (handle)
        CROSS JOIN LATERAL unnest(counted.to_services) AS address (to_service)
        LEFT JOIN {schema}.endpoints AS far
            ON far.conversation_id = counted.conversation_id AND far.is_initiator <> counted.is_initiator
            AND far.service = address.to_service COLLATE "C"
    ), waiting AS (
        INSERT INTO {schema}.transmission (handle, to_service, sequence, type, content_type, body)
        SELECT handle, to_service, sequence, type, content_type, body
        FROM addressed WHERE becomes = 'waits' ORDER BY place
    ), kept AS (
        INSERT INTO {schema}.dialog_messages (handle, sent, sequence, type, content_type, body)
        SELECT DISTINCT ON (place) handle, TRUE, sequence, type, content_type, body
        FROM addressed WHERE retains ORDER BY place
    )
    SELECT
        array_agg(queue_id) FILTER (WHERE queue_id IS NOT NULL AND becomes <> 'left out') AS queue_ids,
        array_agg(receiver ORDER BY place) FILTER (WHERE becomes = 'posted') AS receivers,
        array_agg(type ORDER BY place) FILTER (WHERE becomes = 'posted') AS kinds,
        array_agg(content_type ORDER BY place) FILTER (WHERE becomes = 'posted') AS content_types,
        array_agg(body ORDER BY place) FILTER (WHERE becomes = 'posted') AS bodies,
        array_agg(sequence ORDER BY place) FILTER (WHERE becomes = 'posted') AS sequences
    INTO routed FROM addressed;
    IF routed.queue_ids IS NOT NULL THEN
        PERFORM {schema}.permit('publish', routed.queue_ids);
    END IF;
    IF routed.receivers IS NOT NULL THEN
        PERFORM {schema}.post(
            routed.receivers, routed.kinds, routed.content_types, routed.bodies, routed.sequences, FALSE
        );
    END IF;
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
CREATE FUNCTION {schema}.send(handle uuid, type text, body bytea DEFAULT '', content_type text DEFAULT NULL) RETURNS void
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

-- End a side of a dialog: `verb` is end, end with error, or clean up. What waits for it goes, but for messages that its
-- turn has in hand.
CREATE FUNCTION {schema}.try_end(
    of_handle uuid, what_verb text, code integer, why text, in_hand text[],
    OUT refused text, OUT what text, OUT remedy text
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $function$
DECLARE
    own record;
    far record;
    rule record;
    waits boolean;
    told boolean := FALSE;
    becomes text;
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[]::integer[]);
    PERFORM {schema}.hold_definitions();
    PERFORM {schema}.lock_dialogs(ARRAY[of_handle]);
    SELECT known.* INTO own FROM {schema}.endpoints AS known WHERE known.handle = of_handle;
    IF NOT FOUND THEN
        refused := 'usage';
        what := format('there is no dialog with the handle %s', of_handle);
        remedy := 'a handle is known until half an hour after its dialog has ended';
        RETURN;
    END IF;
    PERFORM {schema}.permit('receive', ARRAY[own.queue_id]);
    IF what_verb = 'end with error' AND (coalesce(code, 0) < 1 OR coalesce(length(why), 0) NOT BETWEEN 1 AND 3000) THEN
        refused := 'usage';
        what := 'an error has a code above 0 and a text of 1 to 3000 characters';
        RETURN;
    END IF;
    PERFORM FROM {schema}.endpoints AS known
    WHERE known.conversation_id = own.conversation_id
        AND (known.handle = of_handle OR NOT known.is_monolog OR own.is_initiator)
    ORDER BY known.handle FOR UPDATE;
    SELECT known.* INTO own FROM {schema}.endpoints AS known WHERE known.handle = of_handle;
    SELECT one.* INTO rule FROM {schema}.dialog_rules AS one
    WHERE one.verb = what_verb AND one.state = {schema}.state_now(own.state, own.expires_at);
    becomes := rule.becomes;
    IF what_verb <> 'end' THEN
        DELETE FROM {schema}.transmission AS one WHERE one.handle = of_handle;
    END IF;
    -- Nobody is there any more whom it could reach.
    DELETE FROM {schema}.transmission AS one USING {schema}.endpoints AS other
    WHERE one.handle = of_handle AND other.conversation_id = own.conversation_id
        AND other.is_initiator <> own.is_initiator AND other.service = one.to_service AND other.state IN ('ER', 'CD');
    waits := EXISTS (SELECT FROM {schema}.transmission AS one WHERE one.handle = of_handle);
    IF what_verb <> 'clean up' AND (NOT own.is_monolog OR own.is_initiator) AND rule.becomes <> rule.state THEN
        FOR far IN
            SELECT known.handle, known.state, known.service FROM {schema}.endpoints AS known
            WHERE known.conversation_id = own.conversation_id AND known.is_initiator <> own.is_initiator
            ORDER BY known.handle
        LOOP
            -- Where something is on its way the end comes behind it.
            CONTINUE WHEN waits AND EXISTS (
                SELECT FROM {schema}.transmission AS one
                WHERE one.to_service = far.service AND one.handle = of_handle
            );
            PERFORM {schema}.happen(
                far.handle, CASE what_verb WHEN 'end' THEN 'end comes' ELSE 'error comes' END, own.send_sequence, code,
                why
            );
            told := told OR far.state IN ('SI', 'CO');
        END LOOP;
        IF waits AND rule.tells = 'EndDialog' THEN
            INSERT INTO {schema}.transmission (handle, to_service, sequence, type, body)
            SELECT of_handle, one.to_service, own.send_sequence, rule.tells, ''
            FROM (SELECT DISTINCT known.to_service FROM {schema}.transmission AS known
                WHERE known.handle = of_handle) AS one;
        END IF;
    END IF;
    IF rule.tells = 'EndDialog' THEN
        UPDATE {schema}.endpoints AS known SET send_sequence = known.send_sequence + 1 WHERE known.handle = of_handle;
    END IF;
    -- Nobody is there who would have to end, too; and who listens to a monolog isn't waited for.
    IF becomes = 'DO' AND NOT waits AND (NOT told OR own.is_monolog) THEN
        becomes := CASE rule.state WHEN 'DO' THEN 'DO' ELSE 'CD' END;
    END IF;
    IF becomes <> own.state THEN
        PERFORM {schema}.become(of_handle, becomes);
    END IF;
    IF becomes IN ('DO', 'CD') THEN
        PERFORM {schema}.drop_unread(of_handle, in_hand, NULL);
        -- What is on its way to it, because its queue is full, goes as well.
        DELETE FROM {schema}.transmission AS one USING {schema}.endpoints AS other
        WHERE other.conversation_id = own.conversation_id AND other.is_initiator <> own.is_initiator
            AND one.handle = other.handle AND one.to_service = own.service;
    END IF;
END
$function$;

-- End a dialog, within the caller's transaction: for triggers, procedures and other languages.
CREATE FUNCTION {schema}.end_dialog(
    handle uuid, error_code integer DEFAULT NULL, error_text text DEFAULT NULL, cleanup boolean DEFAULT FALSE
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    done record;
BEGIN
    done := {schema}.try_end(
        handle, CASE WHEN cleanup THEN 'clean up' WHEN error_code IS NOT NULL THEN 'end with error' ELSE 'end' END,
        error_code, error_text, ARRAY[]::text[]
    );
    PERFORM {schema}.refuse(done.refused, done.what, done.remedy);
END
$function$;

-- What waits for a side that has ended while its turn had it in hand, and that was put back.
CREATE FUNCTION {schema}.drop_ended(handles uuid[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    one record;
BEGIN
    PERFORM {schema}.permit('receive', ARRAY(
        SELECT known.queue_id FROM {schema}.endpoints AS known WHERE known.handle = ANY (handles)
    ));
    FOR one IN
        SELECT known.handle FROM {schema}.endpoints AS known
        WHERE known.handle = ANY (handles) AND known.state IN ('DO', 'CD')
    LOOP
        PERFORM {schema}.drop_unread(one.handle, ARRAY[]::text[], NULL);
    END LOOP;
END
$function$;

-- Set, or with NULL take away, the timer of a side.
CREATE FUNCTION {schema}.try_set_timer(
    of_handle uuid, delay interval, OUT refused text, OUT what text, OUT remedy text
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    own record;
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[]::integer[]);
    PERFORM {schema}.lock_dialogs(ARRAY[of_handle]);
    SELECT known.queue_id, rule.refusal INTO own FROM {schema}.endpoints AS known
    JOIN {schema}.dialog_rules AS rule
        ON rule.verb = 'set timer' AND rule.state = {schema}.state_now(known.state, known.expires_at)
    WHERE known.handle = of_handle FOR NO KEY UPDATE OF known;
    IF NOT FOUND THEN
        refused := 'usage';
        what := format('there is no dialog with the handle %s', of_handle);
        RETURN;
    END IF;
    PERFORM {schema}.permit('receive', ARRAY[own.queue_id]);
    IF own.refusal IS NOT NULL THEN
        refused := 'refused';
        what := format('the dialog %s takes no timer: %s', of_handle, own.refusal);
        RETURN;
    END IF;
    UPDATE {schema}.endpoints AS known SET timer_at = clock_timestamp() + delay WHERE known.handle = of_handle;
END
$function$;

CREATE FUNCTION {schema}.set_dialog_timer(handle uuid, delay interval) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    done record;
BEGIN
    done := {schema}.try_set_timer(handle, delay);
    PERFORM {schema}.refuse(done.refused, done.what, done.remedy);
END
$function$;

-- Move a side into another conversation group, with what waits for it: there it is judged anew, by arrival.
CREATE FUNCTION {schema}.try_move(
    of_handle uuid, to_group uuid, in_hand text[], OUT refused text, OUT what text, OUT remedy text
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    own record;
    moved bigint;
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[]::integer[]);
    SELECT known.queue_id, known.group_id INTO own FROM {schema}.endpoints AS known WHERE known.handle = of_handle;
    IF own.group_id > to_group THEN
        PERFORM pg_advisory_xact_lock({schema}.group_lock(own.queue_id, to_group::text));
    END IF;
    PERFORM {schema}.lock_dialogs(ARRAY[of_handle]);
    PERFORM pg_advisory_xact_lock({schema}.group_lock(own.queue_id, to_group::text));
    -- Whoever sends to it reads where it is, and holds its row meanwhile.
    PERFORM FROM {schema}.endpoints AS known WHERE known.handle = of_handle FOR UPDATE;
    SELECT known.*, rule.refusal INTO own FROM {schema}.endpoints AS known
    JOIN {schema}.dialog_rules AS rule
        ON rule.verb = 'move' AND rule.state = {schema}.state_now(known.state, known.expires_at)
    WHERE known.handle = of_handle;
    IF NOT FOUND THEN
        refused := 'usage';
        what := format('there is no dialog with the handle %s', of_handle);
        RETURN;
    END IF;
    PERFORM {schema}.permit('receive', ARRAY[own.queue_id]);
    IF own.refusal IS NOT NULL THEN
        refused := 'refused';
        what := format('the dialog %s can''t be moved: %s', of_handle, own.refusal);
        RETURN;
    END IF;
    UPDATE {schema}.endpoints AS known SET group_id = to_group WHERE known.handle = of_handle;
    UPDATE {schema}.entries AS entry SET
        group_key = to_group::text, status = 'arrived', ordinal = NULL, arrival = NULL, late = FALSE, waits = FALSE
    FROM {schema}.spool AS stored
    WHERE entry.queue_id = own.queue_id AND entry.group_key = own.group_id::text
        AND stored.arrival_id = entry.arrival_id AND stored.position = entry.position
        AND stored.context -> 'dialog' ->> 'handle' = of_handle::text AND stored.message_id <> ALL (in_hand);
    GET DIAGNOSTICS moved = ROW_COUNT;
    IF moved > 0 THEN
        INSERT INTO {schema}.requests (queue_id, group_key, action, rank)
        VALUES (own.queue_id, own.group_id::text, 'look', {schema}.now_us());
    END IF;
END
$function$;

CREATE FUNCTION {schema}.move_dialog(handle uuid, to_group uuid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    done record;
BEGIN
    done := {schema}.try_move(handle, to_group, ARRAY[]::text[]);
    PERFORM {schema}.refuse(done.refused, done.what, done.remedy);
END
$function$;

-- The first message of these dialogs has been received.
CREATE FUNCTION {schema}.converse(handles uuid[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY(
        SELECT known.queue_id FROM {schema}.endpoints AS known WHERE known.handle = ANY (handles)
    ));
    UPDATE {schema}.endpoints AS known SET state = rule.becomes FROM {schema}.dialog_rules AS rule
    WHERE known.handle = ANY (handles) AND rule.verb = 'receive' AND rule.state = known.state
        AND rule.becomes <> known.state;
END
$function$;

-- Messages aren't what their types say, one of each of some dialogs: they are set aside, with what is behind them there,
-- and the dialogs fail on both sides. The caller has the locks of their groups, and has put back what was handed out of
-- them. Answers with the entries that are set aside.
CREATE FUNCTION {schema}.fail_dialogs(handles uuid[], message_ids text[], sequences bigint[], whys text[]) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    own record;
    far record;
    gone bigint[];
    set_aside bigint[] := '{{}}';
BEGIN
    PERFORM {schema}.permit('receive', ARRAY(
        SELECT DISTINCT known.queue_id FROM {schema}.endpoints AS known WHERE known.handle = ANY (handles)
    ));
    FOR own IN
        SELECT known.*, one.message_id AS its_message, one.sequence AS its_sequence, one.why
        FROM unnest(handles, message_ids, sequences, whys) AS one (handle, message_id, sequence, why)
        JOIN {schema}.endpoints AS known USING (handle)
        ORDER BY known.handle
    LOOP
        PERFORM FROM {schema}.endpoints AS known
        WHERE known.conversation_id = own.conversation_id AND (known.handle = own.handle OR NOT known.is_monolog)
        ORDER BY known.handle FOR UPDATE;
        gone := {schema}.drop_unread(own.handle, ARRAY[]::text[], own.why, own.its_sequence);
        UPDATE {schema}.aside AS one SET disposition = 'invalid' FROM {schema}.spool AS stored
        WHERE one.entry_id = ANY (gone) AND stored.arrival_id = one.arrival_id AND stored.position = one.position
            AND stored.message_id = own.its_message;
        set_aside := set_aside || gone;
        PERFORM {schema}.happen(own.handle, 'invalid comes', NULL, -2, own.why);
        CONTINUE WHEN own.is_monolog;
        DELETE FROM {schema}.transmission AS one USING {schema}.endpoints AS known
        WHERE one.handle = known.handle AND known.conversation_id = own.conversation_id;
        FOR far IN
            SELECT known.handle FROM {schema}.endpoints AS known
            WHERE known.conversation_id = own.conversation_id AND known.is_initiator <> own.is_initiator
        LOOP
            PERFORM {schema}.happen(far.handle, 'error comes', NULL, -2, own.why);
        END LOOP;
    END LOOP;
    RETURN set_aside;
END
$function$;

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
        FROM {schema}.entries AS entry JOIN {schema}.tickets AS run USING (arrival_id)
        WHERE entry.queue_id = of_queue AND entry.group_key = ANY (of_groups) AND entry.status = 'arrived'
            AND entry.ahead
        GROUP BY entry.group_key
    LOOP
        -- Where a group is closed a message is late, as any other.
        CONTINUE WHEN EXISTS (
            SELECT FROM {schema}.groups AS known
            WHERE known.queue_id = of_queue AND known.group_key = one.group_key AND known.flags & 2 <> 0
        );
        INSERT INTO {schema}.groups (
            queue_id, group_key, flags, first, next, mark, last, ordinal, since, reports, clock, skipped, arrivals
        ) VALUES (
            of_queue, one.group_key, fresh[1], fresh[2], fresh[3], fresh[4], fresh[5], fresh[6], fresh[7], fresh[8],
            fresh[9], '{{}}', 0
        ) ON CONFLICT DO NOTHING;
        UPDATE {schema}.groups AS known SET
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
        WHERE entry.entry_id = placed.entry_id;
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
        FROM {schema}.entries AS entry JOIN {schema}.spool AS stored USING (arrival_id, position)
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
        WHERE entry.entry_id = ordered.entry_id AND ordered.becomes <> ordered.ordinal
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

-- The group of a side, and its queue.
CREATE FUNCTION {schema}.group_of(of_handle uuid, OUT queue text, OUT group_key text)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY(
        SELECT known.queue_id FROM {schema}.endpoints AS known WHERE known.handle = of_handle
    ));
    SELECT place.queue, known.group_id::text INTO queue, group_key
    FROM {schema}.endpoints AS known JOIN {schema}.queues AS place USING (queue_id) WHERE known.handle = of_handle;
END
$function$;

-- What is kept of a dialog: both directions where its service keeps them, and what was set aside unread.
CREATE FUNCTION {schema}.history_of(of_handle uuid)
RETURNS TABLE (sent boolean, sequence bigint, type text, content_type text, body bytea, at timestamptz, reason text)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
#variable_conflict use_column
DECLARE
    own record;
BEGIN
    SELECT known.queue_id, known.group_id, known.retains INTO own
    FROM {schema}.endpoints AS known WHERE known.handle = of_handle;
    PERFORM {schema}.permit('receive', ARRAY_REMOVE(ARRAY[own.queue_id], NULL));
    RETURN QUERY
    SELECT one.sent, one.sequence, one.type, one.content_type, one.body, one.at, one.reason FROM (
        SELECT known.sent, known.sequence, known.type, known.content_type, known.body, known.at, NULL AS reason
        FROM {schema}.dialog_messages AS known WHERE known.handle = of_handle
        UNION ALL
        SELECT
            FALSE, (stored.context -> 'dialog' ->> 'sequence')::bigint, stored.type, stored.content_type, stored.body,
            stored.received_at, left_over.reason
        FROM {schema}.aside AS left_over JOIN {schema}.spool AS stored USING (arrival_id, position)
        WHERE left_over.queue_id = own.queue_id AND left_over.group_key = own.group_id::text
            AND stored.context -> 'dialog' ->> 'handle' = of_handle::text AND NOT own.retains
    ) AS one ORDER BY one.at, one.sequence;
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
        DELETE FROM {schema}.groups AS known USING (SELECT DISTINCT queue_id, group_id FROM gone) AS one
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

-- The sides of dialogs as they stand, read without locks. `receive_sequence`: the number that comes next; `unread`: what
-- waits in the queue; `waiting`: what waits to be delivered, and `transmission_status` why.
CREATE VIEW {schema}.dialog_states AS
SELECT
    known.handle,
    known.conversation_id,
    CASE WHEN known.expires_at <= clock_timestamp() AND known.state IN ('SO', 'SI', 'CO', 'DI') THEN 'ER'
        ELSE known.state END AS state,
    known.service,
    known.to_services,
    known.contract,
    place.queue,
    known.group_id,
    known.is_initiator,
    known.is_monolog,
    known.priority,
    known.encryption,
    known.retains AS retention,
    known.send_sequence,
    CASE WHEN known.is_monolog AND known.is_initiator THEN 0 ELSE coalesce((
        SELECT far.send_sequence FROM {schema}.endpoints AS far
        WHERE far.conversation_id = known.conversation_id AND far.is_initiator <> known.is_initiator
    ), 0) END AS receive_sequence,
    (
        SELECT count(*) FROM {schema}.entries AS entry JOIN {schema}.spool AS stored USING (arrival_id, position)
        WHERE entry.queue_id = known.queue_id AND entry.group_key = known.group_id::text
            AND stored.context -> 'dialog' ->> 'handle' = known.handle::text
    ) AS unread,
    coalesce(undelivered.waiting, 0) AS waiting,
    undelivered.status AS transmission_status,
    known.began_at,
    known.closed_at,
    known.expires_at,
    known.timer_at,
    known.error_code,
    known.error
FROM {schema}.endpoints AS known
JOIN {schema}.queues AS place USING (queue_id)
LEFT JOIN LATERAL (
    SELECT count(*) AS waiting, string_agg(DISTINCT CASE
        WHEN service.service IS NULL THEN format('there is no service "%s"', one.to_service)
        WHEN NOT service.definition -> 'contracts' ? known.contract AND known.is_initiator THEN
            format('the service "%s" doesn''t accept the contract "%s"', one.to_service, known.contract)
        WHEN EXISTS (
            SELECT FROM {schema}.endpoints AS far
            WHERE far.conversation_id = known.conversation_id AND far.is_initiator <> known.is_initiator
                AND far.service = one.to_service AND far.state IN ('SI', 'CO')
        ) THEN format('the queue of the service "%s" is full', one.to_service)
        ELSE format('the dialog was cleaned up at the service "%s"', one.to_service)
    END, '; ') AS status
    FROM {schema}.transmission AS one LEFT JOIN {schema}.services AS service ON service.service = one.to_service
    WHERE one.handle = known.handle
) AS undelivered ON undelivered.waiting > 0;

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
                    SELECT array_agg(known.subscription_id) FROM {schema}.subscriptions AS known
                    WHERE known.queue_id = place.queue_id AND known.state <> 'started'
                )) IS NOT TRUE
            LIMIT most.readers
        ) AS entry
    ) AS loose
    CROSS JOIN LATERAL (
        SELECT count(*)::integer AS ready FROM (
            SELECT DISTINCT one.group_key FROM (
                (
                    SELECT known.group_key FROM {schema}.groups AS known
                    WHERE known.queue_id = place.queue_id AND known.ready_rank IS NOT NULL
                    ORDER BY known.ready_rank LIMIT most.readers
                ) UNION ALL (
                    SELECT known.group_key FROM {schema}.groups AS known
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
    JOIN {schema}.spool AS stored USING (arrival_id, position)
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
    JOIN {schema}.spool AS stored USING (arrival_id, position)
    JOIN {schema}.queues AS place USING (queue_id)
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

-- Make a lease of what was handed out, the first `how_many` of it, and put all of it back. The caller has it locked, and
-- commits. A message without a group is hidden meanwhile.
CREATE FUNCTION {schema}.claim_lease(
    of_queue integer, of_group text, of_entries bigint[], ordinals bigint[], lates boolean[], how_many integer,
    of_worker text, period interval, OUT token bigint, OUT incarnation integer
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    PERFORM {schema}.permit_entries(of_queue, of_entries);
    IF of_group IS NULL THEN
        UPDATE {schema}.entries AS entry SET visible_at = 'infinity'
        WHERE entry.entry_id = ANY (of_entries[:how_many]) AND entry.queue_id = of_queue;
    ELSE
        PERFORM {schema}.put_back(of_queue, of_group, of_entries, ordinals, lates);
        incarnation := (
            SELECT known.incarnation FROM {schema}.groups AS known
            WHERE known.queue_id = of_queue AND known.group_key = of_group
        );
    END IF;
    INSERT INTO {schema}.leases AS lease (queue_id, group_key, entry_ids, worker, expires_at)
    VALUES (of_queue, of_group, of_entries[:how_many], of_worker, clock_timestamp() + period)
    RETURNING lease.token INTO token;
END
$function$;

-- Put off the end of leases of a queue. Answers with those that are still there; one that has run out stays so.
CREATE FUNCTION {schema}.renew_leases(of_queue integer, tokens bigint[], period interval) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    kept bigint[];
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    WITH renewed AS (
        UPDATE {schema}.leases AS lease SET expires_at = clock_timestamp() + period
        WHERE lease.token = ANY (tokens) AND lease.queue_id = of_queue AND lease.expires_at > clock_timestamp()
        RETURNING lease.token
    )
    SELECT coalesce(array_agg(renewed.token), '{{}}') INTO kept FROM renewed;
    RETURN kept;
END
$function$;

-- Is a lease still its worker's? Locks nothing.
CREATE FUNCTION {schema}.is_held(of_queue integer, of_token bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    RETURN EXISTS (
        SELECT FROM {schema}.leases
        WHERE token = of_token AND queue_id = of_queue AND expires_at > clock_timestamp()
    );
END
$function$;

-- Lock what a lease is of, and look whether it is there: its group first, as everybody does, and then its row. That lock
-- keeps everybody away until the transaction ends, though the lease may run out before. Answers with no row, or FALSE in
-- `held`, where it isn't the caller's any more.
CREATE FUNCTION {schema}.hold_lease(
    of_queue integer, of_token bigint, patience_ms integer, OUT held boolean, OUT of_group text, OUT left_ids bigint[]
)
LANGUAGE plpgsql
SET enable_seqscan = off
AS $function$
DECLARE
    before text := current_setting('lock_timeout');
BEGIN
    SELECT group_key INTO of_group FROM {schema}.leases WHERE token = of_token AND queue_id = of_queue;
    PERFORM set_config('lock_timeout', patience_ms::text, TRUE);
    IF of_group IS NOT NULL THEN
        PERFORM pg_advisory_xact_lock({schema}.group_lock(of_queue, of_group));
    END IF;
    SELECT expires_at > clock_timestamp(), entry_ids INTO held, left_ids
    FROM {schema}.leases WHERE token = of_token AND queue_id = of_queue FOR UPDATE;
    PERFORM set_config('lock_timeout', before, TRUE);
EXCEPTION WHEN lock_not_available THEN
    held := NULL;
END
$function$;

-- The first `how_many` messages of a lease are done: the caller completes them in this transaction. What is left stays in
-- it; where it ends, that is free again. FALSE: the lease isn't the caller's any more, and nothing is done.
CREATE FUNCTION {schema}.settle_lease(of_queue integer, of_token bigint, how_many integer, ends boolean) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    lease record;
    remaining bigint[];
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    SELECT * INTO lease FROM {schema}.hold_lease(of_queue, of_token, 10000);
    IF lease.held IS NOT TRUE OR how_many > cardinality(lease.left_ids) THEN
        RETURN FALSE;
    END IF;
    remaining := lease.left_ids[how_many + 1:];
    IF ends OR cardinality(remaining) = 0 THEN
        DELETE FROM {schema}.leases WHERE token = of_token;
        IF lease.of_group IS NULL THEN
            UPDATE {schema}.entries SET visible_at = NULL WHERE entry_id = ANY (remaining) AND queue_id = of_queue;
        END IF;
    ELSE
        UPDATE {schema}.leases SET entry_ids = remaining WHERE token = of_token;
    END IF;
    IF lease.of_group IS NULL THEN
        RETURN TRUE;
    END IF;
    -- As `hand_out` leaves it: ready, if the first that isn't done may be seen. Its first messages are in order.
    UPDATE {schema}.groups AS known SET
        ready_rank = CASE WHEN following.hidden THEN NULL ELSE following.rank END,
        due_at = CASE WHEN following.hidden AND following.visible_at < 'infinity'
            THEN least(known.due_at, (extract(epoch FROM following.visible_at) * 1000000)::bigint)
            ELSE known.due_at END,
        touched_at = now()
    FROM (SELECT) AS once LEFT JOIN (
        SELECT one.rank, one.visible_at, one.visible_at > clock_timestamp() AS hidden
        FROM {schema}.entries AS one
        WHERE one.queue_id = of_queue AND one.group_key = lease.of_group AND one.status = 'queued'
            AND one.entry_id <> ALL (lease.left_ids[:how_many])
        ORDER BY one.ordinal LIMIT 1
    ) AS following ON TRUE
    WHERE known.queue_id = of_queue AND known.group_key = lease.of_group;
    RETURN TRUE;
END
$function$;

-- Take a lease away: its messages are where they were before. `expired`: only one that has run out. FALSE: there is none,
-- or the group isn't free in time.
CREATE FUNCTION {schema}.drop_lease(of_queue integer, of_token bigint, expired boolean, patience_ms integer) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    lease record;
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    SELECT * INTO lease FROM {schema}.hold_lease(of_queue, of_token, patience_ms);
    IF lease.held IS NULL OR expired AND lease.held THEN
        RETURN FALSE;
    END IF;
    DELETE FROM {schema}.leases WHERE token = of_token;
    IF lease.of_group IS NULL THEN
        UPDATE {schema}.entries SET visible_at = NULL WHERE entry_id = ANY (lease.left_ids) AND queue_id = of_queue;
    END IF;
    PERFORM {schema}.call_waiters(ARRAY[of_queue], 1);
    RETURN TRUE;
END
$function$;

-- The leases of a queue that have run out, each with the message that its handler had.
CREATE FUNCTION {schema}.expired_leases(of_queue integer)
RETURNS TABLE (token bigint, group_key text, entry_id bigint, worker text, expired_at timestamptz)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    RETURN QUERY
    SELECT lease.token, lease.group_key, lease.entry_ids[1], lease.worker, lease.expires_at
    FROM {schema}.leases AS lease
    WHERE lease.queue_id = of_queue AND lease.expires_at <= clock_timestamp()
    ORDER BY lease.expires_at;
END
$function$;

-- The dialogs that pipelines send in: for each key of a writer the one that its messages go into, and the last batch of
-- the writer of which they are sent. It outlives its dialog until that batch is whole, so that nothing is sent twice.
CREATE TABLE {schema}.writer_dialogs (
    writer text NOT NULL,
    key text COLLATE "C" NOT NULL,
    handle uuid NOT NULL,
    batch bigint NOT NULL,
    PRIMARY KEY (writer, key)
);
CREATE INDEX writer_dialogs_of_handle ON {schema}.writer_dialogs (handle);

-- By which keys staged messages go into dialogs; `problem`: why one doesn't. `place` is that of the message in its part.
CREATE UNLOGGED TABLE {schema}.staged_keys (
    part_id bigint NOT NULL,
    place bigint NOT NULL,
    key text COLLATE "C",
    problem text
);
CREATE INDEX staged_keys_of_part ON {schema}.staged_keys (part_id, key, place);

-- Find the staged messages that the initiator of a dialog may not send under a contract. The caller holds the definitions.
CREATE FUNCTION {schema}.judge_sends(of_parts bigint[], by_contract text) RETURNS void
LANGUAGE sql
AS $function$
    WITH agreed AS (
        SELECT one.type, one.who FROM {schema}.contracts AS known
        CROSS JOIN LATERAL jsonb_each_text(known.definition -> 'types') AS one (type, who)
        WHERE known.contract = by_contract COLLATE "C"
    ), judged AS (
        SELECT message.part_id, message.place, CASE
            WHEN agreed.who IS NULL THEN
                format('the contract "%s" has no message type "%s"', by_contract, left(message.type, 300))
            WHEN agreed.who = 'target' THEN
                format('only the target sends "%s" under the contract "%s"', message.type, by_contract)
            WHEN octet_length(message.body) > 536870912 THEN 'the body of a message can have 536870912 bytes at most'
        END AS problem
        FROM {schema}.staged_messages AS message LEFT JOIN agreed ON agreed.type = message.type COLLATE "C"
        WHERE message.part_id = ANY (of_parts)
    )
    UPDATE {schema}.staged_keys AS staged SET problem = judged.problem FROM judged
    WHERE staged.part_id = judged.part_id AND staged.place = judged.place
        AND staged.key IS NOT NULL AND staged.problem IS DISTINCT FROM judged.problem
$function$;

-- Send what is staged for the next keys of a batch, at most so many, each key's messages in order in a dialog of its own.
-- A dialog that takes no messages any more, or was begun between others, is replaced by a new one. Answers with how many
-- keys these were, and how many messages. The caller holds the definitions and the writer's row.
CREATE FUNCTION {schema}.send_staged(
    of_writer text, of_batch bigint, of_parts bigint[], from_service text, to_service text, by_contract text,
    how_many integer, OUT keys integer, OUT messages bigint
)
LANGUAGE plpgsql
-- A plan that is made while the tables are small must not be one that reads all of them when they are large.
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
AS $function$
DECLARE
    wanted text[];
    known_handles uuid[];
    lines record;
    portion record;
    done record;
    portions CURSOR (its_keys text[], its_handles uuid[]) FOR
        SELECT
            array_agg(one.handle ORDER BY one.number) AS handles, array_agg(one.type ORDER BY one.number) AS kinds,
            array_agg(one.content_type ORDER BY one.number) AS content_types,
            array_agg(one.body ORDER BY one.number) AS bodies
        FROM (
            SELECT line.handle, message.type, message.content_type, message.body,
                row_number() OVER in_order AS number,
                sum(octet_length(message.body)::bigint) OVER in_order - octet_length(message.body) AS bytes_before
            FROM unnest(its_keys, its_handles) AS line (key, handle)
            CROSS JOIN unnest(of_parts) WITH ORDINALITY AS part (part_id, at)
            -- Each key is looked up; a list of keys that is compared with every message would be slower than all else.
            CROSS JOIN LATERAL (
                SELECT known.part_id, known.place FROM {schema}.staged_keys AS known
                WHERE known.part_id = part.part_id AND known.key = line.key COLLATE "C" AND known.problem IS NULL
                OFFSET 0
            ) AS staged
            JOIN {schema}.staged_messages AS message
                ON message.part_id = staged.part_id AND message.place = staged.place
            WINDOW in_order AS (ORDER BY part.at, staged.place)
        ) AS one
        GROUP BY (one.number - 1) / 5000, div(one.bytes_before, 16777216)
        ORDER BY min(one.number);
BEGIN
    messages := 0;
    wanted := ARRAY(
        SELECT DISTINCT staged.key FROM {schema}.staged_keys AS staged
        WHERE staged.part_id = ANY (of_parts) AND staged.key IS NOT NULL AND staged.problem IS NULL AND NOT EXISTS (
            SELECT FROM {schema}.writer_dialogs AS known
            WHERE known.writer = of_writer AND known.key = staged.key AND known.batch >= of_batch
        )
        ORDER BY staged.key LIMIT how_many
    );
    keys := cardinality(wanted);
    IF keys = 0 THEN
        RETURN;
    END IF;
    -- As for a send: what state they are in then stays so.
    known_handles := ARRAY(
        SELECT known.handle FROM {schema}.writer_dialogs AS known
        WHERE known.writer = of_writer AND known.key = ANY (wanted)
    );
    PERFORM {schema}.lock_dialogs(known_handles);
    PERFORM FROM {schema}.endpoints AS own WHERE own.handle = ANY (known_handles) ORDER BY own.handle FOR NO KEY UPDATE;
    WITH known AS MATERIALIZED (
        SELECT one.key, one.handle FROM {schema}.writer_dialogs AS one
        WHERE one.writer = of_writer AND one.key = ANY (wanted)
    ), going AS (
        SELECT known.key, known.handle
        FROM known
        -- Each is looked up, however many there are of this service.
        CROSS JOIN LATERAL (SELECT one.* FROM {schema}.endpoints AS one WHERE one.handle = known.handle OFFSET 0) AS own
        JOIN {schema}.dialog_rules AS rule
            ON rule.verb = 'send' AND rule.state = {schema}.state_now(own.state, own.expires_at)
        WHERE rule.refusal IS NULL AND own.service = from_service COLLATE "C" AND own.contract = by_contract COLLATE "C"
            AND own.to_services = ARRAY[to_service COLLATE "C"]
    ), beginning AS MATERIALIZED (
        SELECT one.key, gen_random_uuid() AS handle
        FROM (SELECT unnest(wanted) AS key EXCEPT SELECT going.key FROM going) AS one
    ), begun AS (
        INSERT INTO {schema}.endpoints (
            handle, conversation_id, is_initiator, service, queue_id, to_services, contract, group_id, state, priority,
            encryption, retains
        )
        SELECT
            beginning.handle, gen_random_uuid(), TRUE, home.service, home.queue_id, ARRAY[to_service], by_contract,
            gen_random_uuid(), 'SO', 5, FALSE, coalesce((home.definition ->> 'retention')::boolean, FALSE)
        FROM beginning JOIN {schema}.services AS home ON home.service = from_service COLLATE "C"
    ), noted AS (
        INSERT INTO {schema}.writer_dialogs AS noting (writer, key, handle, batch)
        SELECT of_writer, one.key, one.handle, of_batch
        FROM (SELECT key, handle FROM going UNION ALL SELECT key, handle FROM beginning) AS one
        ON CONFLICT (writer, key) DO UPDATE SET handle = excluded.handle, batch = excluded.batch
        RETURNING noting.key, noting.handle
    )
    SELECT array_agg(noted.key ORDER BY noted.key) AS its_keys, array_agg(noted.handle ORDER BY noted.key) AS its_handles
    INTO lines FROM noted;
    -- A portion at a time, and not the ten that a loop fetches ahead: they have bodies.
    OPEN portions (lines.its_keys, lines.its_handles);
    LOOP
        FETCH portions INTO portion;
        EXIT WHEN NOT FOUND;
        done := {schema}.try_send(portion.handles, portion.kinds, portion.content_types, portion.bodies);
        PERFORM {schema}.refuse(done.refused, done.what, done.remedy);
        messages := messages + cardinality(portion.handles);
    END LOOP;
    CLOSE portions;
END
$function$;

-- All of a batch is sent that can be: keep the rest as unrouted, each with what is wrong with it, and forget the parts.
-- Answers with how many that is.
CREATE FUNCTION {schema}.end_sends(of_parts bigint[]) RETURNS bigint
LANGUAGE plpgsql
AS $function$
BEGIN
    DELETE FROM {schema}.staged_messages AS message USING {schema}.staged_keys AS staged
    WHERE staged.part_id = ANY (of_parts) AND staged.problem IS NULL
        AND message.part_id = staged.part_id AND message.place = staged.place;
    UPDATE {schema}.staged_messages AS message SET destinations = 0, problem = staged.problem
    FROM {schema}.staged_keys AS staged
    WHERE staged.part_id = ANY (of_parts) AND message.part_id = staged.part_id AND message.place = staged.place;
    DELETE FROM {schema}.staged_keys WHERE part_id = ANY (of_parts);
    RETURN {schema}.merge_parts(of_parts, TRUE);
END
$function$;

-- What is to be done for dialogs whose messages a pipeline gets: who receives the first one converses; who receives an
-- EndDialog or an Error ends his side, and still gets what waits behind it. The caller has the locks of their groups, and
-- has put the messages into a batch.
CREATE FUNCTION {schema}.talk_in_batch(of_queue integer, of_entries bigint[]) RETURNS void
LANGUAGE plpgsql
SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan
AS $function$
DECLARE
    one record;
BEGIN
    UPDATE {schema}.endpoints AS known SET state = rule.becomes
    FROM {schema}.dialog_rules AS rule, (
        SELECT DISTINCT (stored.context -> 'dialog' ->> 'handle')::uuid AS handle
        FROM {schema}.entries AS entry JOIN {schema}.spool AS stored USING (arrival_id, position)
        WHERE entry.entry_id = ANY (of_entries) AND entry.queue_id = of_queue
            AND stored.context -> 'dialog' ->> 'sequence' = '0'
    ) AS first
    WHERE known.handle = first.handle AND NOT known.is_initiator
        AND rule.verb = 'receive' AND rule.state = known.state AND rule.becomes <> known.state;
    FOR one IN
        SELECT DISTINCT (stored.context -> 'dialog' ->> 'handle')::uuid AS handle
        FROM {schema}.entries AS entry JOIN {schema}.spool AS stored USING (arrival_id, position)
        WHERE entry.entry_id = ANY (of_entries) AND entry.queue_id = of_queue
            AND stored.type IN ('EndDialog', 'Error') AND stored.context -> 'dialog' ->> 'handle' IS NOT NULL
        ORDER BY handle
    LOOP
        -- What it hasn't received yet stays for it: it is as good as in its hands.
        PERFORM {schema}.try_end(one.handle, 'end', NULL, NULL, ARRAY(
            SELECT stored.message_id
            FROM {schema}.endpoints AS known
            JOIN {schema}.entries AS entry
                ON entry.queue_id = known.queue_id AND entry.group_key = known.group_id::text
            JOIN {schema}.spool AS stored USING (arrival_id, position)
            WHERE known.handle = one.handle
        ));
    END LOOP;
END
$function$;

-- As `fail_dialogs`, of messages that a turn has put into a batch which isn't complete: they, and what is behind them in
-- their dialogs, are taken out of it.
CREATE FUNCTION {schema}.fail_in_batch(
    of_queue integer, in_batch bigint, handles uuid[], message_ids text[], sequences bigint[], whys text[]
) RETURNS bigint[]
LANGUAGE plpgsql
SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan
AS $function$
BEGIN
    UPDATE {schema}.entries AS entry SET status = 'queued', batch = NULL
    FROM unnest(handles, sequences) AS one (handle, sequence)
    JOIN {schema}.endpoints AS known USING (handle), {schema}.spool AS stored
    WHERE entry.queue_id = of_queue AND entry.batch = in_batch AND entry.group_key = known.group_id::text
        AND stored.arrival_id = entry.arrival_id AND stored.position = entry.position
        AND stored.context -> 'dialog' ->> 'handle' = one.handle::text
        AND (stored.context -> 'dialog' ->> 'sequence')::bigint >= one.sequence;
    RETURN {schema}.fail_dialogs(handles, message_ids, sequences, whys);
END
$function$;

-- Nobody but the owner, unless he lets them in.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA {schema} FROM PUBLIC;
