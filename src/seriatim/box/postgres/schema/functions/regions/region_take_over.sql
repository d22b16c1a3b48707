-- Take over another party's knowledge of sessions.
-- is: sql, own path
CREATE OR REPLACE FUNCTION {schema}.region_take_over(
    of_name text, queues text[], of_sessions text[], throughs bigint[], overs bigint[]
) RETURNS void
BEGIN ATOMIC
    INSERT INTO {schema}.region_sessions AS known (queue_id, session, through, over_through)
    SELECT place.queue_id, given.session, given.through, given.over_through
    FROM unnest(queues, of_sessions, throughs, overs) AS given (queue, session, through, over_through)
    JOIN {schema}.queues AS place ON place.queue = given.queue
    JOIN {schema}.region_queues AS regional ON regional.queue_id = place.queue_id AND regional.name = of_name
    ORDER BY place.queue_id, given.session COLLATE "C"
    ON CONFLICT (queue_id, session) DO UPDATE SET
        through = greatest(known.through, excluded.through),
        over_through = greatest(known.over_through, excluded.over_through);
END;
