-- Take in the staged parts of a batch, in order, as one publishing. Messages that were published before are left out,
-- unless they `repeat`: one message of a pipeline may go to several queues. Return how many are taken in. The caller
-- holds the definitions by which they were routed, and has locked the row of its writer.
--
-- Mostly their bodies are in the spool already, and stay there. Where messages are left out, all of them are taken out of it and written
-- anew: bodies are read only for that. No statistics have the number of rows of a part, and a
-- batch that the planner takes for one row would be compared with itself row by row: hence no nested loops.
-- is: no nestloop
CREATE OR REPLACE FUNCTION {schema}.merge_parts(of_parts bigint[], repeat boolean) RETURNS bigint
AS $function$
DECLARE
    moment_us bigint := {schema}.now_us();
    has_gates boolean := EXISTS (SELECT FROM {schema}.ways);
    serials bigint[];
    taken bigint := {schema}.merge_stored(of_parts, repeat);
    numbered_queues integer[];
BEGIN
    IF taken IS NULL THEN
        PERFORM {schema}.unstore_parts(of_parts);
        serials := ARRAY(
            SELECT nextval('{schema}.arrival_ids') FROM generate_series(1, (
                SELECT sum(part.messages)::bigint FROM {schema}.parts AS part WHERE part.part_id = ANY (of_parts)
            ))
        );
        WITH staged AS MATERIALIZED (
            SELECT message.part_id, message.place, message.message_id, message.location, message.destinations,
                message.problem,
                row_number() OVER (ORDER BY part.at, message.place) AS number,
                CASE WHEN repeat THEN 1
                    ELSE row_number() OVER (PARTITION BY message.message_id ORDER BY part.at, message.place) END AS copy
            FROM unnest(of_parts) WITH ORDINALITY AS part (part_id, at)
            JOIN {schema}.staged_messages AS message USING (part_id)
            WHERE message.part_id = ANY (of_parts)
        ), fresh AS (
            -- In one order for all publishers, so that two of them never deadlock.
            INSERT INTO {schema}.message_ids (message_id)
            SELECT message_id FROM staged WHERE copy = 1 AND NOT repeat ORDER BY message_id
            ON CONFLICT DO NOTHING
            RETURNING message_id
        ), numbered AS MATERIALIZED (
            SELECT part_id, place, location, destinations, problem, serials[number] AS serial,
                first_value(serials[number]) OVER run AS arrival_id, row_number() OVER run - 1 AS position
            FROM staged LEFT JOIN fresh USING (message_id)
            WHERE copy = 1 AND (repeat OR fresh.message_id IS NOT NULL)
            WINDOW run AS (PARTITION BY location ORDER BY number)
        ), arrived AS (
            INSERT INTO {schema}.arrivals (arrival_id, location, count, queue_ids)
            SELECT arrival_id, location, count(*), ARRAY(
                SELECT DISTINCT queue_id FROM {schema}.staged_entries WHERE part_id = ANY (of_parts)
            ) FROM numbered GROUP BY arrival_id, location
        ), spooled AS (
            INSERT INTO {schema}.spool (
                arrival_id, position, message_id, type, content_type, context, property_types, body, destinations, parts,
                serial
            )
            SELECT
                arrival_id, position, message_id, type, content_type, context::jsonb, property_types::jsonb, body,
                message.destinations, parts, nullif(serial, arrival_id + position)
            FROM numbered JOIN {schema}.staged_messages AS message USING (part_id, place)
            WHERE message.part_id = ANY (of_parts)
        ), beside AS (
            INSERT INTO {schema}.message_parts (arrival_id, position, number, name, content_type, body)
            SELECT arrival_id, position, number, name, content_type, body
            FROM numbered JOIN {schema}.staged_message_parts AS part USING (part_id, place)
            WHERE part.part_id = ANY (of_parts)
        ), entered AS (
            INSERT INTO {schema}.entries (
                gate_id, queue_id, group_key, rank, arrival_id, position, sequence, size, meaning, priority, subscription_ids,
                serial
            )
            SELECT
                CASE WHEN has_gates THEN (
                    SELECT known.gate_id FROM {schema}.ways AS known
                    WHERE known.queue_id = entry.queue_id AND known.is_origin
                ) END,
                queue_id, group_key, moment_us - (priority - 5) * 10000000, numbered.arrival_id, numbered.position,
                sequence, size, meaning,
                priority, subscription_ids, serial
            FROM numbered JOIN {schema}.staged_entries AS entry USING (part_id, place)
            WHERE entry.part_id = ANY (of_parts) AND entry.problem IS NULL AND NOT {is_loose_void(group_key, meaning)}
        ), refused AS (
            INSERT INTO {schema}.aside (
                entry_id, queue_id, group_key, disposition, reason, arrival_id, position, sequence, size, meaning, priority,
                subscription_ids
            )
            SELECT
                nextval('{schema}.entry_ids'), queue_id, group_key,
                CASE WHEN entry.problem IS NULL THEN 'void' ELSE 'invalid' END, coalesce(entry.problem, {LEAVES_NOTHING}),
                numbered.arrival_id, numbered.position, sequence, size, meaning, priority, subscription_ids
            FROM numbered JOIN {schema}.staged_entries AS entry USING (part_id, place)
            WHERE entry.part_id = ANY (of_parts) AND (entry.problem IS NOT NULL OR {is_loose_void(group_key, meaning)})
        ), nowhere AS (
            INSERT INTO {schema}.unrouted (arrival_id, position, problem)
            SELECT arrival_id, position, problem
            FROM numbered WHERE destinations = 0
        )
        SELECT count(*) INTO taken FROM numbered;
    END IF;
    IF EXISTS (SELECT FROM {schema}.open_requests) THEN
        PERFORM {schema}.keep_replies(array_agg(stored.arrival_id), array_agg(stored.position), array_agg(kept.problem))
        FROM {schema}.arrivals AS mine
        JOIN {schema}.spool AS stored USING (arrival_id)
        LEFT JOIN {schema}.unrouted AS kept USING (arrival_id, position)
        WHERE mine.transaction = pg_current_xact_id();
        DELETE FROM {schema}.unrouted AS kept USING {schema}.arrivals AS mine, {schema}.replies AS reply
        WHERE mine.transaction = pg_current_xact_id() AND kept.arrival_id = mine.arrival_id
            AND reply.arrival_id = kept.arrival_id AND reply.position = kept.position;
    END IF;
    numbered_queues := {schema}.numbering(ARRAY(
        SELECT unnest(queue_ids) FROM {schema}.arrivals WHERE transaction = pg_current_xact_id()
    ));
    IF numbered_queues IS NOT NULL THEN
        PERFORM {schema}.number_at_commit(numbered_queues, NULL);
    END IF;
    DELETE FROM {schema}.staged_entries WHERE part_id = ANY (of_parts);
    DELETE FROM {schema}.staged_message_parts WHERE part_id = ANY (of_parts);
    DELETE FROM {schema}.staged_messages WHERE part_id = ANY (of_parts);
    DELETE FROM {schema}.staged_arrivals WHERE part_id = ANY (of_parts);
    DELETE FROM {schema}.parts WHERE part_id = ANY (of_parts);
    RETURN taken;
END
$function$;
