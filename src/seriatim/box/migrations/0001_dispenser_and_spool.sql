-- The first schema: the dispenser of tickets, and the spool that messages are published into.
-- {schema} is the name of the box.

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

-- What a transaction in progress has published: one row for each call and location. Numbered, and gone, at commit;
-- so the table is empty to everybody else, and needs no log.
CREATE UNLOGGED TABLE {schema}.arrivals (
    transaction xid8 NOT NULL DEFAULT pg_current_xact_id(),
    arrival_id bigint NOT NULL DEFAULT nextval('{schema}.arrival_ids'),
    location text NOT NULL,
    count bigint NOT NULL CHECK (count > 0),
    PRIMARY KEY (transaction, arrival_id)
);

-- Every number that was given: runs of `count` tickets that begin at (epoch, number), of an arrival or dispensed.
-- Rows are only added. The newest of a location says what is next.
CREATE TABLE {schema}.tickets (
    location text NOT NULL REFERENCES {schema}.locations,
    epoch bigint NOT NULL CHECK (epoch >= 0),
    number bigint NOT NULL CHECK (number >= 1),
    count bigint NOT NULL CHECK (count > 0),
    arrival_id bigint UNIQUE,
    PRIMARY KEY (location, epoch, number)
);

-- Bodies, once each. The ticket of a message is that of its arrival, `position` further.
CREATE TABLE {schema}.spool (
    arrival_id bigint NOT NULL,
    position bigint NOT NULL CHECK (position >= 0),
    message_id text NOT NULL,
    type text NOT NULL,
    content_type text,
    context jsonb NOT NULL,
    body bytea NOT NULL,
    received_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (arrival_id, position)
);

-- Which messages were published lately, so that publishing one again changes nothing.
CREATE TABLE {schema}.message_ids (
    message_id text PRIMARY KEY,
    published_at timestamptz NOT NULL DEFAULT now()
);

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
CREATE FUNCTION {schema}.number_arrivals() RETURNS trigger
LANGUAGE plpgsql
SET enable_seqscan = off
AS $function$
DECLARE
    arrival record;
BEGIN
    FOR arrival IN
        WITH mine AS (
            DELETE FROM {schema}.arrivals WHERE transaction = pg_current_xact_id()
            RETURNING location, arrival_id, count
        )
        SELECT location, arrival_id, count FROM mine ORDER BY location, arrival_id
    LOOP
        PERFORM {schema}.dispense(arrival.location, arrival.count, arrival.arrival_id);
    END LOOP;
    RETURN NULL;
END
$function$;

CREATE CONSTRAINT TRIGGER number_at_commit AFTER INSERT ON {schema}.arrivals
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION {schema}.number_arrivals();

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
