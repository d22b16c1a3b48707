-- Messages, and the numbers that they are given: the dispenser and the spool.
-- {schema} is the name of the box; a database may have several.

CREATE SCHEMA {schema};

-- What every message passes is checked by domains: the expression of a CHECK is read and compiled anew by each
-- statement, which is a tenth of what a publish costs the server; that of a domain once a session.
CREATE DOMAIN {schema}.zero_or_more AS bigint CHECK (VALUE >= 0);
CREATE DOMAIN {schema}.one_or_more AS bigint CHECK (VALUE >= 1);
CREATE DOMAIN {schema}.priority AS smallint CHECK (VALUE BETWEEN 1 AND 10);
CREATE DOMAIN {schema}.entry_status AS text COLLATE "C" CHECK (VALUE IN ('arrived', 'held', 'queued', 'in_hand'));

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
    count {schema}.one_or_more NOT NULL,
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
    epoch {schema}.zero_or_more NOT NULL,
    number {schema}.one_or_more NOT NULL,
    count {schema}.one_or_more NOT NULL,
    arrival_id bigint UNIQUE,
    stamp bigint NOT NULL DEFAULT nextval('{schema}.stamps'),
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

-- The lock of a location's numbers.
CREATE FUNCTION {schema}.location_lock(of_location text) RETURNS bigint
LANGUAGE sql STABLE STRICT PARALLEL SAFE
RETURN hashtextextended(of_location, '{schema}'::regnamespace::oid::bigint << 32);

-- Take a location's next numbers, and hold the location until the transaction ends. A location that isn't known
-- begins at 1. The numbers are `how_many` from (epoch, number) on; after the last number comes 1 of the next epoch.
-- `stamp`: their place in the order of commit over all locations.
--
-- A plan that is made while the table is small must not be one that reads all of it when it is large. The settings for
-- that are those of the functions that call this one, for each costs every call something.
CREATE FUNCTION {schema}.dispense(
    at_location text, how_many bigint, for_arrival bigint DEFAULT NULL,
    OUT epoch bigint, OUT number bigint, OUT stamp bigint
)
LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
DECLARE
    -- Not by PERFORM, which runs a query.
    locked boolean := pg_advisory_xact_lock({schema}.location_lock(at_location)) IS NOT NULL;
BEGIN
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
        RETURNING given.epoch, given.number, given.stamp INTO epoch, number, stamp;
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
SET enable_bitmapscan = off
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

-- Now, in microseconds.
CREATE FUNCTION {schema}.now_us() RETURNS bigint
LANGUAGE sql VOLATILE PARALLEL SAFE
RETURN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

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

-- Take a location's next numbers at once. Who may publish may have numbers.
CREATE FUNCTION {schema}.take_numbers(
    at_location text, how_many bigint, OUT epoch bigint, OUT number bigint, OUT last_number bigint
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET plan_cache_mode = force_generic_plan
AS $function$
BEGIN
    PERFORM {schema}.permit('publish', ARRAY[]::integer[]);
    SELECT run.epoch, run.number INTO epoch, number FROM {schema}.dispense(at_location, how_many) AS run;
    SELECT place.last_number INTO last_number
    FROM {schema}.locations AS place WHERE place.location = at_location;
END
$function$;

-- A new id for a message: a UUID of version 7, so that ids made later sort later.
CREATE FUNCTION {schema}.new_message_id() RETURNS text
LANGUAGE sql VOLATILE PARALLEL SAFE
-- One expression, so that it isn't called for each message.
RETURN overlay(lpad(to_hex({schema}.now_us() / 1000), 12, '0') PLACING '-' FROM 9 FOR 0) || '-7'
    || substr(gen_random_uuid()::text, 16);

-- Ids for messages that come together: one that is new, and those that follow it.
CREATE FUNCTION {schema}.new_message_ids(how_many bigint) RETURNS SETOF text
LANGUAGE plpgsql VOLATILE PARALLEL SAFE ROWS 50
AS $function$
DECLARE
    first text := {schema}.new_message_id();
    begins text := left(first, 24);
    last bigint := ('x' || right(first, 12))::bit(48)::bigint;
BEGIN
    RETURN QUERY SELECT begins || lpad(to_hex(last + place & 281474976710655), 12, '0')
    FROM generate_series(0, how_many - 1) AS place;
END
$function$;
