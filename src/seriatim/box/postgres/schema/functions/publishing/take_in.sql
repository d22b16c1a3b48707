-- Take in messages, with the queues that they were routed to. Return the places, from 1, of those that were published
-- before, which are left out; or NULL, and take nothing in, if the definitions have changed since `known_version`.
-- The arrays are those of `enter`; `destinations` has the number of queues of each message. They are ordered at once,
-- and handed out from `visible_at`, or after `delay`. The arrays `part_…` have an item for each part; `part_counts`
-- is NULL if no message has parts.
--
-- `by_itself`: the commit follows at once, and its work is done here. `flushed`: the caller ensures afterwards that
-- the commit is on disk, so that transactions that wait for a location don't wait for the disk. The values of a role
-- that isn't the owner are all checked, and those that are known better here aren't used.
-- is: definer, generic plan, no seqscan
CREATE OR REPLACE FUNCTION {schema}.take_in(
    known_version bigint, message_ids text[], types text[], locations text[], content_types text[], contexts text[],
    property_types text[], bodies bytea[], destinations integer[], problems text[], visible_at timestamptz,
    delay interval, entry_places bigint[], entry_queues integer[], entry_groups text[], entry_sequences bigint[],
    entry_sizes bigint[], entry_priorities integer[], entry_problems text[], entry_subscriptions text[],
    part_counts integer[], part_places bigint[], part_names text[], part_content_types text[], part_bodies bytea[],
    on_way boolean, by_itself boolean, flushed boolean, numbered_queues integer[] DEFAULT NULL,
    entry_gates integer[] DEFAULT NULL, entry_origins text[] DEFAULT NULL, entry_numbers bigint[] DEFAULT NULL, entry_meanings text[] DEFAULT NULL
) RETURNS bigint[]
AS $function$
DECLARE
    delayed_at timestamptz := CASE WHEN visible_at IS NULL AND delay IS NOT NULL THEN clock_timestamp() END;
    seen_from timestamptz := coalesce(visible_at, delayed_at + delay);
    space text := '';
    arrival_ids bigint[];
    positions bigint[];
    serials bigint[];
    stamped bigint;
    came bigint;
    early text;
BEGIN
    IF NOT {schema}.is_owner() THEN
        PERFORM {schema}.permit_incoming(
            message_ids, types, locations, content_types, contexts, property_types, bodies, destinations, problems,
            seen_from, entry_places, entry_queues, entry_groups, entry_sequences, entry_sizes, entry_priorities,
            entry_problems, entry_subscriptions, part_counts, part_places, part_names, part_content_types, part_bodies
        );
        PERFORM {schema}.permit_meanings(entry_queues, entry_meanings);
        space := {schema}.space_of_role({schema}.caller());
        numbered_queues := {schema}.numbering(entry_queues);
        on_way := TRUE;
        entry_gates := NULL;
        entry_origins := NULL;
        entry_numbers := NULL;
    END IF;
    IF known_version IS DISTINCT FROM {schema}.hold_definitions() THEN
        RETURN NULL;
    END IF;
    serials := ARRAY(SELECT nextval('{schema}.arrival_ids') FROM generate_series(1, cardinality(message_ids)));
    WITH incoming AS MATERIALIZED (
        SELECT * FROM unnest(message_ids, locations) WITH ORDINALITY AS message (message_id, location, place)
    ), fresh AS (
        -- In one order for all publishers, so that two of them never deadlock.
        INSERT INTO {schema}.message_ids (message_id, id_space)
        SELECT message_id, space FROM incoming ORDER BY message_id
        ON CONFLICT DO NOTHING
        RETURNING message_id
    ), numbered AS MATERIALIZED (
        SELECT place, location, first_value(serials[place]) OVER run AS arrival_id, row_number() OVER run - 1 AS position
        FROM incoming JOIN fresh USING (message_id)
        WINDOW run AS (PARTITION BY location ORDER BY place)
    ), arrived AS (
        INSERT INTO {schema}.arrivals (arrival_id, location, count, queue_ids)
        SELECT arrival_id, location, count(*), ARRAY(
            SELECT DISTINCT wanted.queue_id FROM unnest(entry_queues) AS wanted (queue_id)
            WHERE NOT on_way OR NOT EXISTS (
                SELECT FROM {schema}.ways AS way WHERE way.queue_id = wanted.queue_id AND way.gate_id = way.queue_id
            )
        ) FROM numbered GROUP BY arrival_id, location
    )
    SELECT
        array_agg(coalesce(arrival_id, 0) ORDER BY place), array_agg(coalesce(position, 0) ORDER BY place)
    INTO arrival_ids, positions
    FROM incoming LEFT JOIN numbered USING (place);
    INSERT INTO {schema}.spool (
        arrival_id, position, message_id, type, content_type, context, property_types, body, destinations, visible_at,
        parts, id_space, serial
    )
    SELECT
        arrival_ids[place], positions[place], message_id, type, content_type, context::jsonb,
        message.property_types::jsonb, body, queues, seen_from, parts, space,
        nullif(serials[place], arrival_ids[place] + positions[place])
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
    IF flushed THEN
        early := {schema}.commit_early();
    END IF;
    IF by_itself THEN
        -- From here on no other transaction gets a number of these locations: rows can be written in order of
        -- commit.
        SET CONSTRAINTS {schema}.number_at_commit IMMEDIATE;
        SELECT run.stamp, run.arrived_us INTO stamped, came
        FROM {schema}.tickets AS run WHERE run.arrival_id = ANY (arrival_ids) LIMIT 1;
    END IF;
    PERFORM {schema}.enter(
        on_way, arrival_ids, positions, destinations, problems, seen_from, delayed_at, entry_places, entry_queues, entry_groups,
        entry_sequences, entry_sizes, entry_priorities, entry_problems, entry_subscriptions, serials, stamped, came,
        numbered_queues, entry_gates, entry_origins, entry_numbers, entry_meanings
    );
    RETURN coalesce(array_positions(arrival_ids, 0), '{}');
END
$function$;
