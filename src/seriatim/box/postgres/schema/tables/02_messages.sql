-- Messages, and the numbers that they are given: the dispenser and the spool. Bodies are here once each.

CREATE SEQUENCE {schema}.arrival_ids;

-- The order of commit over all locations.
CREATE SEQUENCE {schema}.stamps;

-- A part of a message, as SQL gives it to `publish`.
CREATE TYPE {schema}.part AS (name text, content_type text, body bytea);

-- Where messages are received. Whoever takes a location's next numbers has its advisory lock until he commits, and
-- touches no row for it: an update a transaction would leave versions behind that a transaction held open somewhere
-- keeps alive, and every taker would walk them.
CREATE TABLE {schema}.locations (
    location text PRIMARY KEY CHECK (length(location) BETWEEN 1 AND 128),
    last_number bigint NOT NULL DEFAULT {LAST_NUMBER} CHECK (last_number BETWEEN 1 AND {LAST_NUMBER})
);

-- What a transaction in progress has published: one row for each call and location, with the queues that it has put
-- messages into. Numbered, and gone, at commit; so the table is empty to everybody else, and needs no log.
CREATE UNLOGGED TABLE {schema}.arrivals (
    transaction xid8 NOT NULL DEFAULT pg_current_xact_id(),
    arrival_id bigint NOT NULL DEFAULT nextval('{schema}.arrival_ids'),
    location text NOT NULL,
    count {schema}.zero_or_more NOT NULL,
    queue_ids integer[] NOT NULL DEFAULT '{}',
    -- Who published it through SQL, and the queues that he may publish to (NULL: all); NULL where it is routed already.
    publisher text,
    permitted integer[],
    -- What a transaction numbers at its commit besides its arrivals: a row with the count 0. The queues whose entries
    -- of the arrivals `entered` get their places.
    numbered_queues integer[],
    entered bigint[],
    PRIMARY KEY (transaction, arrival_id)
);

CREATE CONSTRAINT TRIGGER number_at_commit AFTER INSERT ON {schema}.arrivals
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION {schema}.number_arrivals();
ALTER TABLE {schema}.arrivals ENABLE ALWAYS TRIGGER number_at_commit;

-- Every number that was given: runs of `count` tickets that begin at (epoch, number), of an arrival or dispensed.
-- Rows are only added, by `dispense` alone, which reads the location under its lock: so there is no foreign key, which
-- would cost each message another look and a lock on one row. The newest of a location says what is next. `stamp` is
-- the order of commit.
CREATE TABLE {schema}.tickets (
    location text NOT NULL,
    epoch {schema}.zero_or_more NOT NULL,
    number {schema}.one_or_more NOT NULL,
    count {schema}.one_or_more NOT NULL,
    arrival_id bigint UNIQUE,
    stamp bigint NOT NULL DEFAULT nextval('{schema}.stamps'),
    -- When what it numbers arrived: microseconds.
    arrived_us bigint NOT NULL DEFAULT {schema}.now_us(),
    PRIMARY KEY (location, epoch, number)
);

-- Bodies, once each. The ticket of a message is that of its arrival, `position` further. `destinations`: how many
-- queues got it; with the last of them it goes. `visible_at`: not handed out before.
CREATE TABLE {schema}.spool (
    arrival_id bigint NOT NULL,
    position {schema}.zero_or_more NOT NULL,
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
    parts {schema}.one_or_more,
    -- Message ids are compared within one space only.
    id_space text COLLATE "C" NOT NULL DEFAULT '',
    PRIMARY KEY (arrival_id, position)
);
-- Messages are stored about in the order of their times: so an index of the times that each run of pages has finds a
-- message by the moment that is kept with its id. It has no entry for each message, and costs a publisher nothing that
-- can be measured.
CREATE INDEX spool_by_time ON {schema}.spool USING brin (received_at) WITH (pages_per_range = 32);

CREATE TRIGGER drop_message_parts AFTER DELETE ON {schema}.spool
FOR EACH ROW WHEN (OLD.parts IS NOT NULL) EXECUTE FUNCTION {schema}.drop_message_parts();
ALTER TABLE {schema}.spool ENABLE ALWAYS TRIGGER drop_message_parts;

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

-- Which messages were published lately, so that publishing one again changes nothing.
CREATE TABLE {schema}.message_ids (
    message_id text NOT NULL,
    published_at timestamptz NOT NULL DEFAULT now(),
    id_space text COLLATE "C" NOT NULL DEFAULT '',
    PRIMARY KEY (message_id, id_space)
);
CREATE INDEX message_ids_by_age ON {schema}.message_ids (published_at);

-- The last message that a queue took with a key, in an id space, where keys are compared as message ids are. It is only
-- looked up here: whether it still waits its entry tells. So whoever completes a message changes nothing here, and no
-- publisher waits for a transaction that has one in hand; two publishers of one key wait for each other, as for a
-- message id. `arrival_id` and `position` are NULL within the transaction that takes it.
CREATE TABLE {schema}.unique_keys (
    queue_id integer NOT NULL,
    id_space text COLLATE "C" NOT NULL,
    unique_key text COLLATE "C" NOT NULL,
    message_id text NOT NULL,
    arrival_id bigint,
    position bigint,
    claimed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (queue_id, id_space, unique_key)
) WITH (fillfactor = 80);
CREATE INDEX unique_keys_by_age ON {schema}.unique_keys (claimed_at);

-- References to messages that are gone: each may have been the last one of its message. Written by whoever takes a
-- reference away, in the same transaction; read by the clean-up, which then looks whether another one is left. So it
-- never has to look at the whole spool, and whoever completes needs no lock on the message that others refer to, too.
CREATE TABLE {schema}.dropped (
    drop_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    arrival_id bigint NOT NULL,
    position bigint NOT NULL
);
