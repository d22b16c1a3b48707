-- Claim keys, as `claim_keys` does, for messages that wait to be routed. Return for each of their entries NULL: it may
-- be made; or the id of the message that waits in its place. `entry_places` counts messages from 1.
-- is: definer, generic plan, no seqscan
CREATE OR REPLACE FUNCTION {schema}.claim_routed(
    arrival_ids bigint[], positions bigint[], entry_places bigint[], entry_queues integer[], entry_keys text[]
) RETURNS text[]
AS $function$
DECLARE
    own record;
    its_waiting text[];
    -- The entries that are not made, and the messages that wait in their places.
    places bigint[] := '{}';
    waiting text[] := '{}';
BEGIN
    PERFORM {schema}.permit('route', ARRAY[]::integer[]);
    IF (cardinality(entry_keys) = ALL (ARRAY[cardinality(entry_places), cardinality(entry_queues)])) IS NOT TRUE
        OR EXISTS (SELECT FROM unnest(entry_keys) AS one WHERE octet_length(one) NOT BETWEEN 1 AND 1024)
    THEN
        RAISE EXCEPTION 'there is a unique key for each entry, of 1 to 1024 bytes, or NULL' USING
            ERRCODE = 'invalid_parameter_value';
    END IF;
    FOR own IN
        SELECT stored.id_space, array_agg(given.nth ORDER BY given.nth) AS at,
            array_agg(given.queue_id ORDER BY given.nth) AS queue_ids,
            array_agg(given.unique_key ORDER BY given.nth) AS keys,
            array_agg(stored.message_id ORDER BY given.nth) AS ids,
            array_agg(stored.arrival_id ORDER BY given.nth) AS arrival_ids,
            array_agg(stored.position ORDER BY given.nth) AS positions
        FROM unnest(entry_places, entry_queues, entry_keys) WITH ORDINALITY AS given (place, queue_id, unique_key, nth)
        JOIN {schema}.to_route AS known
            ON known.arrival_id = ANY (ARRAY[claim_routed.arrival_ids[given.place]])
            AND known.position = ANY (ARRAY[claim_routed.positions[given.place]])
        JOIN {schema}.spool AS stored
            ON stored.arrival_id = ANY (ARRAY[known.arrival_id]) AND stored.position = ANY (ARRAY[known.position])
        WHERE given.unique_key IS NOT NULL
        GROUP BY stored.id_space ORDER BY stored.id_space
    LOOP
        its_waiting := {schema}.claim_keys(own.queue_ids, own.keys, own.ids, own.id_space);
        UPDATE {schema}.unique_keys AS taken SET arrival_id = mine.arrival_id, position = mine.position
        FROM unnest(own.queue_ids, own.keys, own.arrival_ids, own.positions, its_waiting)
            AS mine (queue_id, unique_key, arrival_id, position, waits)
        WHERE mine.waits IS NULL AND taken.queue_id = ANY (ARRAY[mine.queue_id]) AND taken.id_space = own.id_space
            AND taken.unique_key = ANY (ARRAY[mine.unique_key]);
        places := places || own.at;
        waiting := waiting || its_waiting;
    END LOOP;
    RETURN ARRAY(
        SELECT max(one.waits) FROM (
            SELECT nth, NULL AS waits FROM generate_subscripts(entry_keys, 1) AS nth
            UNION ALL
            SELECT * FROM unnest(places, waiting)
        ) AS one GROUP BY one.nth ORDER BY one.nth
    );
END
$function$;
