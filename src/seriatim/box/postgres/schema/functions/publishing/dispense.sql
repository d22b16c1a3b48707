CREATE OR REPLACE FUNCTION {schema}.dispense(
    at_location text, how_many bigint, for_arrival bigint DEFAULT NULL,
    OUT epoch bigint, OUT number bigint, OUT stamp bigint, OUT arrived_us bigint
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
        RETURNING given.epoch, given.number, given.stamp, given.arrived_us INTO epoch, number, stamp, arrived_us;
        EXIT WHEN FOUND;
        INSERT INTO {schema}.locations (location) VALUES (at_location) ON CONFLICT DO NOTHING;
    END LOOP;
END
$function$;
