-- Queues, subscriptions and what is in them: messages are routed as they are published, and ordered as they are
-- received.
-- {schema} is the name of the box.

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
CREATE INDEX subscriptions_not_started ON {schema}.subscriptions (queue_id) WHERE state <> 'started';

-- A row for each change to the above. Whoever routes knows by the newest whether what it knows is still so.
CREATE TABLE {schema}.changes (
    version bigint PRIMARY KEY,
    changed_at timestamptz NOT NULL DEFAULT now(),
    changed_by text NOT NULL DEFAULT session_user,
    what text NOT NULL
);
INSERT INTO {schema}.changes (version, what) VALUES (0, 'the box was made');

-- Which queues a call has put messages into, to wake whoever waits there.
ALTER TABLE {schema}.arrivals ADD COLUMN queue_ids integer[] NOT NULL DEFAULT '{{}}';

-- The order of commit over all locations.
CREATE SEQUENCE {schema}.stamps;
ALTER TABLE {schema}.tickets ADD COLUMN stamp bigint NOT NULL DEFAULT nextval('{schema}.stamps');

-- How many queues got the message: with the last of them it goes. `visible_at`: not handed out before.
ALTER TABLE {schema}.spool ADD COLUMN destinations integer NOT NULL DEFAULT 0;
ALTER TABLE {schema}.spool ADD COLUMN visible_at timestamptz;
-- The types of properties that JSON has no type for: decimal, double, timestamp.
ALTER TABLE {schema}.spool ADD COLUMN property_types jsonb;

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
    since timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX waiters_of_queue ON {schema}.waiters (queue_id);

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
CREATE FUNCTION {schema}.take_in(
    known_version bigint, message_ids text[], types text[], locations text[], content_types text[],
    contexts text[], property_types text[], bodies bytea[], destinations integer[], problems text[],
    visible_at timestamptz, delay interval,
    entry_places bigint[], entry_queues integer[], entry_groups text[], entry_sequences bigint[],
    entry_sizes bigint[], entry_priorities integer[], entry_problems text[], entry_subscriptions text[],
    entry_waits boolean[],
    part_counts integer[], part_places bigint[], part_names text[], part_content_types text[], part_bodies bytea[]
) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
AS $function$
DECLARE
    seen_from timestamptz := coalesce(visible_at, clock_timestamp() + delay);
    arrival_ids bigint[];
    positions bigint[];
BEGIN
    PERFORM {schema}.permit('publish', entry_queues);
    PERFORM {schema}.hold_definitions();
    IF known_version <> (SELECT max(version) FROM {schema}.changes) THEN
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
    PERFORM {schema}.enter(
        arrival_ids, positions, destinations, problems, seen_from, entry_places, entry_queues, entry_groups,
        entry_sequences, entry_sizes, entry_priorities, entry_problems, entry_subscriptions, entry_waits
    );
    RETURN TRUE;
END
$function$;

-- Is there something for a turn to do in a group?
CREATE FUNCTION {schema}.has_work(of_queue integer, of_group text, now_us bigint) RETURNS boolean
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan
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
        -- Whoever wanted the group to be looked at committed before; the turn reads after this.
        DELETE FROM {schema}.requests WHERE queue_id = of_queue AND group_key = of_group AND action = 'look';
        RETURN TRUE;
    END IF;
    RAISE EXCEPTION 'nothing to do' USING ERRCODE = 'SQ001';
EXCEPTION WHEN SQLSTATE 'SQ001' THEN
    RETURN FALSE;
END
$function$;

-- Lock the next groups of a queue that have something to do, at most `how_many`: those of lowest rank first. Each look
-- reads the first row of each index that isn't of a group already tried.
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
    WHILE cardinality(taken) < how_many LOOP
        SELECT group_key INTO candidate FROM (
            (
                SELECT group_key, ready_rank AS rank FROM {schema}.groups
                WHERE queue_id = of_queue AND ready_rank IS NOT NULL AND group_key <> ALL (tried)
                ORDER BY ready_rank LIMIT 1
            ) UNION ALL (
                SELECT group_key, rank FROM {schema}.entries
                WHERE queue_id = of_queue AND status = 'arrived' AND group_key <> ALL (tried)
                ORDER BY rank LIMIT 1
            ) UNION ALL (
                SELECT group_key, due_at FROM {schema}.groups
                WHERE queue_id = of_queue AND due_at <= now_us AND group_key <> ALL (tried)
                ORDER BY due_at LIMIT 1
            ) UNION ALL (
                SELECT group_key, rank FROM {schema}.requests
                WHERE queue_id = of_queue AND group_key <> ALL (tried)
                ORDER BY rank LIMIT 1
            )
        ) AS first
        ORDER BY rank LIMIT 1;
        EXIT WHEN candidate IS NULL;
        tried := tried || candidate;
        IF {schema}.lock_group(of_queue, candidate, now_us) THEN
            taken := taken || candidate;
        END IF;
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
    IF EXISTS (
        SELECT FROM {schema}.groups WHERE queue_id = of_queue AND group_key = of_group AND ready_rank IS NOT NULL
    ) AND NOT EXISTS (
        SELECT FROM {schema}.requests WHERE queue_id = of_queue AND group_key = of_group
    ) THEN
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
AS $function$
DECLARE
    moment timestamptz := coalesce(to_timestamp(at_us / 1e6), clock_timestamp());
    oldest bigint;
    candidate record;
    found text;
    cut bigint;
    following record;
    tries integer := 0;
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    IF EXISTS (SELECT FROM {schema}.requests AS request WHERE request.queue_id = of_queue) OR EXISTS (
        SELECT FROM {schema}.subscriptions AS one WHERE one.queue_id = of_queue AND one.state <> 'started'
    ) THEN
        RETURN;
    END IF;
    IF named IS NULL THEN
        SELECT entry.rank INTO oldest FROM {schema}.entries AS entry
        WHERE entry.queue_id = of_queue AND entry.status = 'arrived' ORDER BY entry.rank LIMIT 1;
    END IF;
    FOR candidate IN
        SELECT known.group_key AS key, known.ready_rank AS rank FROM {schema}.groups AS known
        WHERE known.queue_id = of_queue AND known.ready_rank IS NOT NULL AND (named IS NULL OR known.group_key = named)
        ORDER BY known.ready_rank
    LOOP
        tries := tries + 1;
        EXIT WHEN candidate.rank > oldest OR tries > 1000;
        IF {schema}.lock_ready(of_queue, candidate.key) THEN
            found := candidate.key;
            EXIT;
        END IF;
    END LOOP;
    IF found IS NULL THEN
        RETURN;
    END IF;
    -- Where it has less than is asked for, and more has arrived, that is judged first; the group stays locked for it.
    IF EXISTS (
        SELECT FROM {schema}.entries AS one
        WHERE one.queue_id = of_queue AND one.group_key = found AND one.status = 'arrived'
    ) AND NOT EXISTS (
        SELECT FROM {schema}.entries AS one
        WHERE one.queue_id = of_queue AND one.group_key = found AND one.status = 'queued'
        ORDER BY one.ordinal OFFSET at_most - 1 LIMIT 1
    ) THEN
        RETURN;
    END IF;
    -- What may not be seen yet keeps what is behind it.
    SELECT max(entry.ordinal) FILTER (WHERE entry.seen) INTO cut FROM (
        SELECT one.ordinal,
            bool_and(one.visible_at IS NULL OR one.visible_at <= moment) OVER (ORDER BY one.ordinal) AS seen
        FROM {schema}.entries AS one
        WHERE one.queue_id = of_queue AND one.group_key = found AND one.status = 'queued'
        ORDER BY one.ordinal LIMIT at_most
    ) AS entry;
    RETURN QUERY
    SELECT
        (SELECT max(change.version) FROM {schema}.changes AS change), current_setting('transaction_isolation'),
        found, (SELECT known.incarnation FROM {schema}.groups AS known
            WHERE known.queue_id = of_queue AND known.group_key = found),
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
    WHERE entry.queue_id = of_queue AND entry.group_key = found AND entry.status = 'queued' AND entry.ordinal <= cut
    ORDER BY entry.ordinal;
    SELECT one.rank, one.visible_at, one.visible_at > moment AS hidden INTO following
    FROM {schema}.entries AS one
    WHERE one.queue_id = of_queue AND one.group_key = found AND one.status = 'queued' AND one.ordinal > cut
    ORDER BY one.ordinal LIMIT 1;
    UPDATE {schema}.groups AS known SET
        ready_rank = CASE WHEN following.hidden THEN NULL ELSE following.rank END,
        due_at = CASE WHEN following.hidden AND following.visible_at < 'infinity'
            THEN least(known.due_at, (extract(epoch FROM following.visible_at) * 1000000)::bigint)
            ELSE known.due_at END,
        touched_at = now()
    WHERE known.queue_id = of_queue AND known.group_key = found;
END
$function$;

-- Write down what a turn decided, and give the messages that it hands out. The first arrays: a value for each of its groups; then the entries that stay (held,
-- or released and not handed out), those that are set aside, and the requests that it has obeyed. All groups are
-- locked by the caller.
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
AS $function$
BEGIN
    PERFORM {schema}.permit_entries(of_queue, kept_ids || aside_ids);
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
        DELETE FROM {schema}.requests WHERE request_id = ANY (obeyed_ids) AND queue_id = of_queue;
    END IF;
END
$function$;

-- What was handed out is done: it goes, and with its last reference the message; or both are kept.
CREATE FUNCTION {schema}.complete(
    of_queue integer, entry_ids bigint[], ordinals bigint[], lates boolean[], of_incarnation integer, keep boolean
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
AS $function$
BEGIN
    PERFORM {schema}.permit_entries(of_queue, entry_ids);
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
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
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

-- At commit: number what the transaction has published. The first of its arrivals numbers all of them, in the order
-- of locations, so that two transactions never wait for each other crosswise; the others find nothing left.
-- Whoever waits for one of the messages is called: as many as there are messages, each once.
CREATE OR REPLACE FUNCTION {schema}.number_arrivals() RETURNS trigger
LANGUAGE plpgsql
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
