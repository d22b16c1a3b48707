-- Take in the staged parts of a batch, in order, whose messages are in the spool: their bodies stay where they are. Return how many they
-- are; NULL, and nothing is done: the parts have other messages, or not the order of their numbers, or a message was published before.
CREATE OR REPLACE FUNCTION {schema}.merge_stored(of_parts bigint[], repeat boolean) RETURNS bigint
AS $function$
DECLARE
    moment_us bigint := {schema}.now_us();
    has_gates boolean := EXISTS (SELECT FROM {schema}.ways);
    staged record;
    entered bigint;
BEGIN
    SELECT sum(one.messages)::bigint AS messages, sum(one.entries) AS entries,
        bool_and(one.messages = one.stored AND one.number > one.before) AS is_fine
    INTO staged
    FROM (
        SELECT part.messages, part.entries, part.number, lag(part.number, 1, -1::bigint) OVER (ORDER BY given.at) AS before, (
            SELECT coalesce(sum(arrival.count), 0) FROM {schema}.staged_arrivals AS arrival
            WHERE arrival.part_id = part.part_id
        ) AS stored
        FROM unnest(of_parts) WITH ORDINALITY AS given (part_id, at) JOIN {schema}.parts AS part USING (part_id)
    ) AS one;
    IF staged.is_fine IS NOT TRUE THEN
        RETURN NULL;
    END IF;
    IF NOT repeat THEN
        BEGIN
            -- In one order for all publishers, so that two of them never deadlock.
            INSERT INTO {schema}.message_ids (message_id, published_at)
            SELECT stored.message_id, stored.received_at
            FROM {schema}.staged_arrivals AS arrival CROSS JOIN LATERAL (
                SELECT one.message_id, one.received_at FROM {schema}.spool AS one
                WHERE one.arrival_id = arrival.arrival_id OFFSET 0
            ) AS stored
            WHERE arrival.part_id = ANY (of_parts) ORDER BY stored.message_id;
        EXCEPTION WHEN unique_violation THEN
            RETURN NULL;
        END;
    END IF;
    INSERT INTO {schema}.arrivals (arrival_id, location, count, queue_ids, serial)
    SELECT arrival_id, location, count, ARRAY(
        SELECT DISTINCT entry.queue_id FROM {schema}.staged_entries AS entry
        WHERE entry.part_id = ANY (of_parts) AND entry.queue_id IS NOT NULL
    ), part.number << 32
    FROM {schema}.staged_arrivals JOIN {schema}.parts AS part USING (part_id) WHERE part_id = ANY (of_parts);
    INSERT INTO {schema}.entries (
        gate_id, queue_id, group_key, rank, arrival_id, position, sequence, size, meaning, priority, subscription_ids,
        serial
    )
    SELECT
        CASE WHEN has_gates THEN (
            SELECT known.gate_id FROM {schema}.ways AS known
            WHERE known.queue_id = entry.queue_id AND known.is_origin
        ) END,
        queue_id, group_key, moment_us - (priority - 5) * 10000000, arrival_id, position, sequence, size, meaning,
        priority, subscription_ids, part.number << 32 | place
    FROM {schema}.parts AS part JOIN {schema}.staged_entries AS entry USING (part_id)
    WHERE part_id = ANY (of_parts) AND entry.queue_id IS NOT NULL AND entry.problem IS NULL
        AND NOT {is_loose_void(group_key, meaning)};
    GET DIAGNOSTICS entered = ROW_COUNT;
    IF entered < staged.entries THEN
        INSERT INTO {schema}.aside (
            entry_id, queue_id, group_key, disposition, reason, arrival_id, position, sequence, size, meaning, priority,
            subscription_ids
        )
        SELECT
            nextval('{schema}.entry_ids'), queue_id, group_key, CASE WHEN problem IS NULL THEN 'void' ELSE 'invalid' END,
            coalesce(problem, {LEAVES_NOTHING}), arrival_id, position, sequence, size, meaning, priority, subscription_ids
        FROM {schema}.staged_entries WHERE part_id = ANY (of_parts) AND queue_id IS NOT NULL
            AND (problem IS NOT NULL OR {is_loose_void(group_key, meaning)});
        INSERT INTO {schema}.unrouted (arrival_id, position, problem)
        SELECT arrival_id, position, problem FROM {schema}.staged_entries
        WHERE part_id = ANY (of_parts) AND queue_id IS NULL;
    END IF;
    RETURN staged.messages;
END
$function$;
