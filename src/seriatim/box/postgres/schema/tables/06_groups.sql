-- Groups: what is remembered of each, who works on it, who waits, and what has happened to it.

-- Claims of workers whose handlers take long. What is in one is queued again at once, in the same commit, and nobody
-- else gets it while the row is there: so a lease that is taken away, however, has left everything in its place.
CREATE SEQUENCE {schema}.fences;

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
    -- What became of those that are gone: the count of each disposition, in the kernel's order; that of voids at a gate
    -- only.
    decided bigint[] NOT NULL DEFAULT '{0,0,0,0,0,0,0}',
    -- When its next timer, or the next message that may not be seen before, is due; microseconds.
    due_at bigint,
    -- The rank of its first message that can be handed out.
    ready_rank bigint,
    touched_at timestamptz NOT NULL DEFAULT now(),
    -- As in the kernel's state: how many messages below the next number count, and the number of the last of them.
    suspects bigint NOT NULL DEFAULT 0,
    suspect bigint NOT NULL DEFAULT {NOTHING},
    -- The last messages that were released: for each its number and the fingerprint of its content, 8 bytes each.
    remembered bytea STORAGE MAIN NOT NULL DEFAULT '',
    PRIMARY KEY (queue_id, group_key)
) WITH (fillfactor = 50);
CREATE INDEX groups_ready ON {schema}.known_groups (queue_id, ready_rank) WHERE ready_rank IS NOT NULL;
CREATE INDEX groups_due ON {schema}.known_groups (queue_id, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX groups_faulted ON {schema}.known_groups (queue_id, group_key) WHERE flags & {flag.FAULTED} <> 0;
-- The groups that may stand still: suspended, faulted, or with a clock that runs (of a hole, a round or a set). Groups
-- that only work are not in it, so that a turn pays for it only where such a fact begins or ends.
CREATE INDEX groups_standing ON {schema}.known_groups (queue_id, group_key)
WHERE flags & {flag.SUSPENDED|FAULTED} <> 0 OR since <> {NEVER};
CREATE INDEX groups_suspected ON {schema}.known_groups (queue_id, group_key) WHERE suspects > 0;

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

-- `token`: the fencing token, higher with every lease. `group_key`: NULL where the queue has no groups; else one lease
-- at a time. `entry_ids`: what isn't done, in order. `expires_at`: unless its worker puts it off before.
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

-- `first`..`last`: the numbers that it is about; NULL: none. `count`: how many messages or numbers it stands for. `at`:
-- when it happened, by the rules of time of the group. `operation_id`: the operator's action that caused it.
-- `position`: its place in the order in which exporters read; given by the first reader that comes after its commit
-- (`place_events`).
CREATE TABLE {schema}.events (
    event_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    position bigint,
    queue_id integer NOT NULL,
    group_key text COLLATE "C" NOT NULL,
    incarnation integer NOT NULL,
    kind text NOT NULL CHECK (kind IN (
        'hole_opened', 'hole_overdue', 'hole_skipped', 'hole_filled', 'timed_out', 'closed', 'suspended', 'resumed',
        'conflict', 'restart_suspected', 'void', 'restored'
    )),
    first bigint,
    last bigint,
    count bigint NOT NULL DEFAULT 1 CHECK (count > 0),
    at timestamptz NOT NULL,
    recorded_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    operation_id bigint,
    CHECK ((first IS NULL) = (last IS NULL))
);
CREATE INDEX events_of_group ON {schema}.events (queue_id, group_key, event_id);
CREATE UNIQUE INDEX events_by_position ON {schema}.events (position) WHERE position IS NOT NULL;
CREATE INDEX events_without_position ON {schema}.events (event_id) WHERE position IS NULL;

-- The last position that was given; one row.
CREATE TABLE {schema}.event_positions (
    single boolean PRIMARY KEY DEFAULT TRUE CHECK (single),
    last bigint NOT NULL DEFAULT 0
);
INSERT INTO {schema}.event_positions DEFAULT VALUES;
