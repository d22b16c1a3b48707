-- Take a location's next numbers, and hold the location until the transaction ends. An unknown location begins at 1.
-- The numbers are `how_many` from (epoch, number) on; after the last number comes 1 of the next epoch. `stamp`: their
-- place in the order of commit over all locations. `with_stamp`, `at_us`: another stamp and time than the present
-- ones.
--
-- A plan from a time of a small table must not read all of it when it is large. The callers make the settings for
-- that, because each costs every call something.
CREATE OR REPLACE FUNCTION {schema}.dispense(
    at_location text, how_many bigint, for_arrival bigint DEFAULT NULL, with_stamp bigint DEFAULT NULL,
    at_us bigint DEFAULT NULL, OUT epoch bigint, OUT number bigint, OUT stamp bigint, OUT arrived_us bigint
)
AS $function$
#variable_conflict use_column
DECLARE
    -- Not by PERFORM, which runs a query.
    locked boolean := pg_try_advisory_xact_lock({schema}.location_lock(at_location)) OR {schema}.wait_for_lock(
        {schema}.location_lock(at_location), FALSE, format('the location "%s"', at_location)
    );
BEGIN
    LOOP
        -- A separate statement: its snapshot is younger than the lock.
        INSERT INTO {schema}.tickets AS given (location, epoch, number, count, arrival_id, stamp, arrived_us)
        SELECT
            place.location, coalesce(newest.epoch + newest.taken / place.last_number, 0),
            coalesce(newest.taken % place.last_number + 1, 1), how_many, for_arrival,
            coalesce(with_stamp, nextval('{schema}.stamps')), coalesce(at_us, {schema}.now_us())
        FROM {schema}.locations AS place LEFT JOIN LATERAL (
            SELECT run.epoch, run.number - 1 + run.count AS taken
            FROM {schema}.tickets AS run WHERE run.location = at_location
            ORDER BY run.epoch DESC, run.number DESC LIMIT 1
        ) AS newest ON TRUE
        WHERE place.location = at_location
        RETURNING given.epoch, given.number, given.stamp, given.arrived_us INTO epoch, number, stamp, arrived_us;
        EXIT WHEN FOUND;
        INSERT INTO {schema}.locations (location) VALUES (at_location) ON CONFLICT DO NOTHING;
    END LOOP;
END
$function$;
