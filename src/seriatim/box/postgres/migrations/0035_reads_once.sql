-- What reads more than it needs: a role's look at messages, and the end of a pipeline's batch.

-- Take the staged parts of a batch in, in their order, as one publishing. The caller holds the definitions by which
-- they were routed, and the writer's row. Messages that were published before are left out, unless they `repeat`: one
-- message of a pipeline may go to several queues. Answers with how many are taken in. Bodies are read where
-- they are written into the spool; all else goes by what was numbered.
CREATE OR REPLACE FUNCTION {schema}.merge_parts(of_parts bigint[], repeat boolean) RETURNS bigint
LANGUAGE plpgsql
-- How many rows a part has no statistics say: a batch that is taken for one row would be compared with itself row by row.
SET enable_nestloop = off
AS $function$
DECLARE
    moment_us bigint := {schema}.now_us();
    taken bigint;
BEGIN
    WITH staged AS MATERIALIZED (
        SELECT message.part_id, message.place, message.message_id, message.location, message.destinations, message.problem,
            row_number() OVER (ORDER BY part.at, message.place) AS number,
            CASE WHEN repeat THEN 1
                ELSE row_number() OVER (PARTITION BY message.message_id ORDER BY part.at, message.place) END AS copy
        FROM unnest(of_parts) WITH ORDINALITY AS part (part_id, at)
        JOIN {schema}.staged_messages AS message USING (part_id)
        WHERE message.part_id = ANY (of_parts)
    ), fresh AS (
        -- In one order for all publishers, so that two of them never wait for each other crosswise.
        INSERT INTO {schema}.message_ids (message_id)
        SELECT message_id FROM staged WHERE copy = 1 AND NOT repeat ORDER BY message_id
        ON CONFLICT DO NOTHING
        RETURNING message_id
    ), numbered AS MATERIALIZED (
        SELECT part_id, place, location, destinations, problem,
            row_number() OVER (PARTITION BY location ORDER BY number) - 1 AS position
        FROM staged LEFT JOIN fresh USING (message_id)
        WHERE copy = 1 AND (repeat OR fresh.message_id IS NOT NULL)
    ), arrived AS (
        INSERT INTO {schema}.arrivals (location, count, queue_ids)
        SELECT location, count(*), ARRAY(
            SELECT DISTINCT queue_id FROM {schema}.staged_entries WHERE part_id = ANY (of_parts)
        ) FROM numbered GROUP BY location
        RETURNING arrival_id, location
    ), placed AS MATERIALIZED (
        SELECT part_id, place, arrival_id, position, destinations, problem FROM numbered JOIN arrived USING (location)
    ), spooled AS (
        INSERT INTO {schema}.spool (
            arrival_id, position, message_id, type, content_type, context, property_types, body, destinations, parts
        )
        SELECT
            arrival_id, position, message_id, type, content_type, context::jsonb, property_types::jsonb, body,
            message.destinations, parts
        FROM placed JOIN {schema}.staged_messages AS message USING (part_id, place)
        WHERE message.part_id = ANY (of_parts)
    ), beside AS (
        INSERT INTO {schema}.message_parts (arrival_id, position, number, name, content_type, body)
        SELECT arrival_id, position, number, name, content_type, body
        FROM placed JOIN {schema}.staged_message_parts AS part USING (part_id, place)
        WHERE part.part_id = ANY (of_parts)
    ), entered AS (
        INSERT INTO {schema}.entries (
            queue_id, group_key, rank, arrival_id, position, sequence, size, priority, subscription_ids
        )
        SELECT
            queue_id, group_key, moment_us - (priority - 5) * 10000000, arrival_id, position, sequence, size,
            priority, subscription_ids
        FROM placed JOIN {schema}.staged_entries AS entry USING (part_id, place)
        WHERE entry.part_id = ANY (of_parts) AND entry.problem IS NULL
    ), refused AS (
        INSERT INTO {schema}.aside (
            entry_id, queue_id, group_key, disposition, reason, arrival_id, position, sequence, size, priority,
            subscription_ids
        )
        SELECT
            nextval('{schema}.entry_ids'), queue_id, group_key, 'invalid', entry.problem, arrival_id, position,
            sequence, size, priority, subscription_ids
        FROM placed JOIN {schema}.staged_entries AS entry USING (part_id, place)
        WHERE entry.part_id = ANY (of_parts) AND entry.problem IS NOT NULL
    ), nowhere AS (
        INSERT INTO {schema}.unrouted (arrival_id, position, problem)
        SELECT arrival_id, position, problem
        FROM placed WHERE destinations = 0
    )
    SELECT count(*) INTO taken FROM placed;
    DELETE FROM {schema}.staged_entries WHERE part_id = ANY (of_parts);
    DELETE FROM {schema}.staged_message_parts WHERE part_id = ANY (of_parts);
    DELETE FROM {schema}.staged_messages WHERE part_id = ANY (of_parts);
    DELETE FROM {schema}.parts WHERE part_id = ANY (of_parts);
    RETURN taken;
END
$function$;

-- What a role sees of messages, looked up for each message that is asked for. A join with `messages_seen` grouped all messages
-- of all queues, and the view kept the condition of whoever read it from getting in.

CREATE OR REPLACE VIEW {schema}.seen_spool WITH (security_barrier) AS
SELECT
    stored.arrival_id,
    stored.position,
    stored.message_id,
    stored.type,
    stored.content_type,
    CASE WHEN kept.with_body THEN stored.context END AS context,
    CASE WHEN kept.with_body THEN stored.body END AS body,
    stored.received_at,
    stored.destinations,
    stored.visible_at,
    CASE WHEN kept.with_body THEN stored.property_types END AS property_types,
    stored.parts,
    stored.id_space
FROM {schema}.spool AS stored CROSS JOIN LATERAL (
    SELECT bool_or(one.queue_id = ANY ((SELECT {schema}.sees('see_bodies'))::integer[])) AS with_body
    FROM (
        SELECT queue_id FROM {schema}.entries AS entry
        WHERE entry.arrival_id = stored.arrival_id AND entry.position = stored.position
        UNION ALL
        SELECT queue_id FROM {schema}.aside AS gone
        WHERE gone.arrival_id = stored.arrival_id AND gone.position = stored.position
        UNION ALL
        SELECT queue_id FROM {schema}.history AS done
        WHERE done.arrival_id = stored.arrival_id AND done.position = stored.position
    ) AS one
    WHERE one.queue_id = ANY ((SELECT {schema}.sees('see'))::integer[])
    HAVING count(*) > 0
) AS kept;

CREATE OR REPLACE VIEW {schema}.seen_tickets WITH (security_barrier) AS
SELECT run.* FROM {schema}.tickets AS run
WHERE EXISTS (
    SELECT FROM {schema}.entries AS entry
    WHERE entry.arrival_id = run.arrival_id AND entry.queue_id = ANY ((SELECT {schema}.sees('see'))::integer[])
) OR EXISTS (
    SELECT FROM {schema}.aside AS gone
    WHERE gone.arrival_id = run.arrival_id AND gone.queue_id = ANY ((SELECT {schema}.sees('see'))::integer[])
) OR EXISTS (
    SELECT FROM {schema}.history AS done
    WHERE done.arrival_id = run.arrival_id AND done.queue_id = ANY ((SELECT {schema}.sees('see'))::integer[])
);

-- The caller's rights are read once, and not for each queue.
CREATE OR REPLACE VIEW {schema}.seen_operator_log WITH (security_barrier) AS
SELECT * FROM {schema}.operator_log
WHERE queue IN (
    SELECT known.queue FROM {schema}.queues AS known WHERE known.queue_id = ANY ((SELECT {schema}.sees('see'))::integer[])
);

CREATE OR REPLACE VIEW {schema}.seen_queue_counts WITH (security_barrier) AS
SELECT * FROM {schema}.queue_counts
WHERE queue IN (
    SELECT known.queue FROM {schema}.queues AS known WHERE known.queue_id = ANY ((SELECT {schema}.sees('see'))::integer[])
);

CREATE OR REPLACE VIEW {schema}.seen_workers WITH (security_barrier) AS
SELECT * FROM {schema}.workers
WHERE queue IN (
    SELECT known.queue FROM {schema}.queues AS known WHERE known.queue_id = ANY ((SELECT {schema}.sees('see'))::integer[])
);

CREATE OR REPLACE VIEW {schema}.seen_message_places WITH (security_barrier) AS
SELECT * FROM {schema}.message_places
WHERE queue IN (
    SELECT known.queue FROM {schema}.queues AS known WHERE known.queue_id = ANY ((SELECT {schema}.sees('see'))::integer[])
);
