-- A message that is published by itself is numbered at once: the commit comes next.
DROP FUNCTION {schema}.take_in(
    bigint, text[], text[], text[], text[], text[], text[], bytea[], integer[], text[], timestamptz, interval,
    bigint[], integer[], text[], bigint[], bigint[], integer[], text[], text[], boolean[],
    integer[], bigint[], text[], text[], bytea[]
);

CREATE FUNCTION {schema}.take_in(
    known_version bigint, message_ids text[], types text[], locations text[], content_types text[],
    contexts text[], property_types text[], bodies bytea[], destinations integer[], problems text[],
    visible_at timestamptz, delay interval,
    entry_places bigint[], entry_queues integer[], entry_groups text[], entry_sequences bigint[],
    entry_sizes bigint[], entry_priorities integer[], entry_problems text[], entry_subscriptions text[],
    entry_waits boolean[],
    part_counts integer[], part_places bigint[], part_names text[], part_content_types text[], part_bodies bytea[],
    by_itself boolean
) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
AS $function$
DECLARE
    seen_from timestamptz := coalesce(visible_at, clock_timestamp() + delay);
    arrival_ids bigint[];
    positions bigint[] := ARRAY[0];
BEGIN
    PERFORM {schema}.permit('publish', entry_queues);
    PERFORM {schema}.hold_definitions();
    IF known_version <> (SELECT max(version) FROM {schema}.changes) THEN
        RETURN FALSE;
    END IF;
    IF cardinality(message_ids) = 1 THEN
        -- What follows for many, without the joins and sorts.
        INSERT INTO {schema}.message_ids (message_id) VALUES (message_ids[1]) ON CONFLICT DO NOTHING;
        IF NOT FOUND THEN
            RETURN TRUE;
        END IF;
        IF by_itself THEN
            arrival_ids := ARRAY[nextval('{schema}.arrival_ids')];
        ELSE
            INSERT INTO {schema}.arrivals (location, count, queue_ids)
            VALUES (locations[1], 1, ARRAY(SELECT DISTINCT unnest(entry_queues)))
            RETURNING ARRAY[arrival_id] INTO arrival_ids;
        END IF;
    ELSE
    WITH incoming AS MATERIALIZED (
        SELECT * FROM unnest(message_ids, locations) WITH ORDINALITY AS message (message_id, location, place)
    ), fresh AS (
        -- In one order for all publishers, so that two of them never wait for each other crosswise.
        INSERT INTO {schema}.message_ids (message_id)
        SELECT message_id FROM incoming ORDER BY message_id
        ON CONFLICT DO NOTHING
        RETURNING message_id
    ), numbered AS MATERIALIZED (
        SELECT place, location, row_number() OVER (PARTITION BY location ORDER BY place) - 1 AS position
        FROM incoming JOIN fresh USING (message_id)
    ), arrived AS (
        INSERT INTO {schema}.arrivals (location, count, queue_ids)
        SELECT location, count(*), ARRAY(SELECT DISTINCT unnest(entry_queues)) FROM numbered GROUP BY location
        RETURNING arrival_id, location
    )
    SELECT
        array_agg(coalesce(arrival_id, 0) ORDER BY place), array_agg(coalesce(position, 0) ORDER BY place)
    INTO arrival_ids, positions
    FROM incoming LEFT JOIN (
        SELECT place, position, arrival_id FROM numbered JOIN arrived USING (location)
    ) AS placed USING (place);
    END IF;
    INSERT INTO {schema}.spool (
        arrival_id, position, message_id, type, content_type, context, property_types, body, destinations, visible_at,
        parts
    )
    SELECT
        arrival_ids[place], positions[place], message_id, type, content_type, context::jsonb,
        message.property_types::jsonb, body, queues, seen_from, parts
    FROM unnest(
        message_ids, types, content_types, contexts, property_types, bodies, destinations, part_counts
    ) WITH ORDINALITY AS message (message_id, type, content_type, context, property_types, body, queues, parts, place)
    WHERE arrival_ids[place] > 0;
    IF part_counts IS NOT NULL THEN
        INSERT INTO {schema}.message_parts (arrival_id, position, number, name, content_type, body)
        SELECT arrival_ids[place], positions[place], number, name, content_type, body
        FROM unnest(part_places, part_names, part_content_types, part_bodies)
            WITH ORDINALITY AS part (place, name, content_type, body, number)
        WHERE arrival_ids[place] > 0;
    END IF;
    PERFORM {schema}.enter(
        arrival_ids, positions, destinations, problems, seen_from, entry_places, entry_queues, entry_groups,
        entry_sequences, entry_sizes, entry_priorities, entry_problems, entry_subscriptions, entry_waits
    );
    IF by_itself AND cardinality(message_ids) = 1 THEN
        -- The commit comes next: what would be done there is done here, without a row that says so.
        PERFORM {schema}.dispense(locations[1], 1, arrival_ids[1]);
        PERFORM {schema}.call_waiters(ARRAY(SELECT DISTINCT unnest(entry_queues)), 1);
    END IF;
    RETURN TRUE;
END
$function$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA {schema} FROM PUBLIC;
