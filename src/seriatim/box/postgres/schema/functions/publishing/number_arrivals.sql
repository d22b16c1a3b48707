-- At the commit, number what the transaction has published. This is a deferred trigger of `arrivals`, which runs once
-- for each new row. The first run numbers all arrivals, the others find nothing left. It takes the locks of all
-- locations first, in the order of their names, so that two transactions never wait for each other crosswise; with the
-- last of them it has its stamp, which all its messages get. It also hands messages of `publish` over to routing, gives
-- entries their numbers in queues that number them (rows of count 0, see `number_at_commit`), and calls waiting
-- receivers: as many as there are messages, each once.
-- is: definer, generic plan, no seqscan, no bitmapscan
CREATE OR REPLACE FUNCTION {schema}.number_arrivals() RETURNS trigger
AS $function$
DECLARE
    place text;
    held boolean;
    arrival record;
    stamped bigint;
    came bigint;
    woken integer[] := ARRAY[]::integer[];
    messages bigint := 0;
    numbered integer[];
    entries_of bigint[];
BEGIN
    FOR place IN
        SELECT DISTINCT one.location FROM {schema}.arrivals AS one
        -- By its key: rows that the first run has deleted are still in the index, and each further run would
        -- read all of it.
        WHERE one.transaction = NEW.transaction AND EXISTS (
            SELECT FROM {schema}.arrivals AS own
            WHERE own.transaction = NEW.transaction AND own.arrival_id = NEW.arrival_id
        )
        ORDER BY one.location
    LOOP
        held := place = '' OR {schema}.take_lock({schema}.location_lock(place), format('the location "%s"', place));
    END LOOP;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    FOR arrival IN
        WITH mine AS (
            DELETE FROM {schema}.arrivals WHERE transaction = pg_current_xact_id()
            RETURNING location, arrival_id, serial, count, queue_ids, publisher, permitted, numbered_queues, entered
        )
        SELECT * FROM mine ORDER BY location, coalesce(serial, arrival_id)
    LOOP
        IF arrival.count = 0 THEN
            numbered := numbered || arrival.numbered_queues;
            entries_of := entries_of || arrival.entered;
            CONTINUE;
        END IF;
        SELECT run.stamp, run.arrived_us INTO stamped, came
        FROM {schema}.dispense(arrival.location, arrival.count, arrival.arrival_id, stamped, came) AS run;
        IF arrival.publisher IS NOT NULL THEN
            INSERT INTO {schema}.to_route (arrival_id, position, stamp, serial, publisher, permitted)
            VALUES (arrival.arrival_id, 0, stamped, arrival.arrival_id, arrival.publisher, arrival.permitted);
        END IF;
        woken := woken || arrival.queue_ids;
        messages := messages + arrival.count;
    END LOOP;
    IF numbered IS NOT NULL THEN
        PERFORM {schema}.number_places(numbered, entries_of);
    END IF;
    IF cardinality(woken) > 0 THEN
        PERFORM {schema}.call_waiters(woken, messages);
    END IF;
    RETURN NULL;
END
$function$;
