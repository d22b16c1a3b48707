-- Queues: what waits in them, what was set aside, what was done.

CREATE SEQUENCE {schema}.entry_ids;

-- A message in a queue, until it is done or set aside. `arrived`: nobody has judged it yet; `held`; `queued`: released
-- and not handed out; `in_hand`: in a batch of a pipeline; `placed`: a result in a gate that waits for its place to be
-- closed; `faulted`: its handler failed for good, and nothing but its place waits for it. Publishing inserts; only a
-- turn, which has the group's lock, changes a row, once or twice.
--
-- A message has a place at its gate, by its group and its ordinal. Its place is open as long as something that descends
-- from it is alive: as long as there is a row of it here, in the origin queue or in a queue on the way. Nothing else
-- says so.
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
    size bigint,
    priority {schema}.priority NOT NULL DEFAULT 5,
    -- Not handed out before; its group waits.
    visible_at timestamptz,
    subscription_ids integer[] NOT NULL DEFAULT '{}',
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
    ahead boolean NOT NULL DEFAULT FALSE,
    -- Where it is known when the entry is written, beside `stamp`; and when it was put back into the queue. NULL: its
    -- ticket tells.
    arrived_us bigint,
    -- Of what is on the way to a gate, and of the results in it; NULL: neither.
    gate_id integer,
    -- Whose place it is. NULL in the origin queue itself, where that is its own, by `group_key` and `ordinal`; in the
    -- gate `origin_group` is NULL, because it is `group_key`.
    origin_group text COLLATE "C",
    origin_number bigint,
    -- How often it was postponed; NULL: never.
    postponed integer,
    -- Until when it was postponed last; as long as that is also when it may be seen, nobody has changed that since.
    postponed_until timestamptz
) WITH (fillfactor = 80);
-- What is judged by its ordinal. Of what has arrived, first that of which only the ticket tells when it was committed,
-- and then in order of commit.
CREATE INDEX entries_of_group
ON {schema}.entries (queue_id, group_key, status, ordinal, stamp NULLS FIRST, position);
CREATE INDEX entries_arrived ON {schema}.entries (queue_id, rank) WHERE status = 'arrived';
CREATE INDEX entries_in_hand ON {schema}.entries (queue_id, batch, group_key, ordinal) WHERE batch IS NOT NULL;
CREATE INDEX entries_of_message ON {schema}.entries (arrival_id, position);
-- What is held behind a hole, in the order in which it leaves: of a long run a turn reads the beginning, and looks up
-- the numbers that arrive.
CREATE INDEX entries_held ON {schema}.entries (queue_id, group_key, sequence, arrival) WHERE status = 'held' AND NOT late;
-- Few: what is late stops its group.
CREATE INDEX entries_held_late ON {schema}.entries (queue_id, group_key, arrival) WHERE status = 'held' AND late;
-- What is alive, by place; and the results that wait.
CREATE INDEX entries_on_way
ON {schema}.entries (gate_id, coalesce(origin_group, group_key), coalesce(origin_number, ordinal)) WHERE gate_id <> queue_id;
CREATE INDEX entries_placed ON {schema}.entries (queue_id, group_key, origin_number) WHERE status = 'placed';
CREATE INDEX entries_faulted ON {schema}.entries (queue_id, group_key) WHERE status = 'faulted';
CREATE INDEX entries_postponed ON {schema}.entries (queue_id, group_key) WHERE postponed_until IS NOT NULL;
COMMENT ON COLUMN {schema}.entries.size IS
'The size of its set, where it tells it. In a queue that is Fifo or Standard its marks: in the two lowest bits whether it opens its group
(1) and closes it (2), in the others of a Standard queue the fingerprint of its content, 0: it is not compared. NULL: nothing.';

CREATE TRIGGER look_at_gate AFTER DELETE ON {schema}.entries
FOR EACH ROW WHEN (
    OLD.gate_id <> OLD.queue_id AND (OLD.late OR current_setting('seriatim.looks', TRUE) IS DISTINCT FROM 'together')
) EXECUTE FUNCTION {schema}.look_at_gate();
ALTER TABLE {schema}.entries ENABLE ALWAYS TRIGGER look_at_gate;

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
    late boolean NOT NULL DEFAULT FALSE,
    -- Of a message that counted as one of a producer that has begun anew: the ordinal of its group then. It is that of
    -- its present count if the group has the same.
    counted bigint
);
CREATE INDEX aside_of_group ON {schema}.aside (queue_id, group_key);
CREATE INDEX aside_of_message ON {schema}.aside (arrival_id, position);
CREATE INDEX aside_dead ON {schema}.aside (queue_id, entry_id) WHERE disposition = 'dead';
-- For pages, which list what was set aside, or is unrouted, by the time of that.
CREATE INDEX aside_by_time ON {schema}.aside (aside_at, arrival_id, position, entry_id) WHERE disposition <> 'dead';

CREATE TRIGGER note_dropped AFTER DELETE ON {schema}.aside
REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION {schema}.note_dropped();
ALTER TABLE {schema}.aside ENABLE ALWAYS TRIGGER note_dropped;

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
    -- Which process completed it, by the name that its connection told PostgreSQL.
    done_by text DEFAULT current_setting('application_name', TRUE),
    -- By queue and age: that is how it goes.
    PRIMARY KEY (queue_id, done_at, entry_id)
) PARTITION BY RANGE (done_at);
CREATE INDEX history_of_group ON {schema}.history (queue_id, group_key);
CREATE INDEX history_of_message ON {schema}.history (arrival_id, position);

CREATE TRIGGER note_dropped AFTER DELETE ON {schema}.history
REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION {schema}.note_dropped();
ALTER TABLE {schema}.history ENABLE ALWAYS TRIGGER note_dropped;

CREATE TABLE {schema}.history_rest PARTITION OF {schema}.history DEFAULT;

-- What no subscription wanted, or what is no message of its type (`problem` says why). Kept until it is resubmitted
-- or deleted.
CREATE TABLE {schema}.unrouted (
    arrival_id bigint NOT NULL,
    position bigint NOT NULL,
    problem text,
    unrouted_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (arrival_id, position)
);
CREATE INDEX unrouted_by_time ON {schema}.unrouted (unrouted_at, arrival_id, position);

CREATE TRIGGER note_dropped AFTER DELETE ON {schema}.unrouted
REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION {schema}.note_dropped();
ALTER TABLE {schema}.unrouted ENABLE ALWAYS TRIGGER note_dropped;

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
CREATE INDEX to_route_in_order ON {schema}.to_route (stamp, position);
CREATE INDEX to_route_of_transaction ON {schema}.to_route (transaction);

CREATE TRIGGER note_dropped AFTER DELETE ON {schema}.to_route
REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION {schema}.note_dropped();
ALTER TABLE {schema}.to_route ENABLE ALWAYS TRIGGER note_dropped;
