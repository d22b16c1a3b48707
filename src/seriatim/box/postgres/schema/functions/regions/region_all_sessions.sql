-- Return the box's knowledge of its sessions, in their order, after one of them.
-- is: sql, stable, own path
CREATE OR REPLACE FUNCTION {schema}.region_all_sessions(
    of_name text, behind_queue text, behind_session text, at_most integer,
    OUT queue text, OUT session text, OUT through bigint, OUT over_through bigint
) RETURNS SETOF record
BEGIN ATOMIC
    SELECT place.queue, known.session, known.through, known.over_through
    FROM {schema}.region_queues AS regional
    JOIN {schema}.queues AS place USING (queue_id)
    JOIN {schema}.region_sessions AS known USING (queue_id)
    WHERE regional.name = of_name
        AND (place.queue COLLATE "C", known.session) > (behind_queue COLLATE "C", behind_session COLLATE "C")
    ORDER BY place.queue COLLATE "C", known.session LIMIT at_most;
END;
