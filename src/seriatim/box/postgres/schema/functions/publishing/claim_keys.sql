-- Take keys for entries of new messages. Return for each entry: NULL, it may come in; or the id of the message that
-- waits in its place, which may be an earlier one of these. A key that is taken is locked until the transaction ends,
-- in one order for all publishers; a key of a waiting message isn't.
CREATE OR REPLACE FUNCTION {schema}.claim_keys(
    of_queues integer[], keys text[], ids text[], of_space text
) RETURNS text[]
AS $function$
DECLARE
    waiting text[] := {schema}.waiting_with(of_queues, keys, of_space);
BEGIN
    IF NOT EXISTS (
        SELECT FROM unnest(keys, waiting) AS given (unique_key, message_id)
        WHERE given.unique_key IS NOT NULL AND given.message_id IS NULL
    ) THEN
        RETURN waiting;
    END IF;
    INSERT INTO {schema}.unique_keys AS known (queue_id, id_space, unique_key, message_id)
    SELECT DISTINCT ON (given.queue_id, given.unique_key) given.queue_id, of_space, given.unique_key, given.message_id
    FROM unnest(of_queues, keys, ids, waiting) WITH ORDINALITY
        AS given (queue_id, unique_key, message_id, waits, place)
    WHERE given.unique_key IS NOT NULL AND given.waits IS NULL
    ORDER BY given.queue_id, given.unique_key, given.place
    ON CONFLICT (queue_id, id_space, unique_key) DO UPDATE SET claimed_at = now();
    -- The former holder of one of them has committed by now: this reads again.
    waiting := {schema}.waiting_with(of_queues, keys, of_space);
    -- A plan from a time of a small table would read all of it for each key. The rows are this transaction's, so
    -- they don't move.
    UPDATE {schema}.unique_keys AS known SET message_id = first.message_id, arrival_id = NULL, position = NULL
    FROM (
        SELECT found.at, asked.message_id
        FROM (
            SELECT DISTINCT ON (given.queue_id, given.unique_key) given.queue_id, given.unique_key, given.message_id
            FROM unnest(of_queues, keys, ids, waiting) WITH ORDINALITY
                AS given (queue_id, unique_key, message_id, waits, place)
            WHERE given.unique_key IS NOT NULL AND given.waits IS NULL
            ORDER BY given.queue_id, given.unique_key, given.place
        ) AS asked
        CROSS JOIN LATERAL (
            SELECT one.ctid AS at FROM {schema}.unique_keys AS one
            WHERE one.queue_id = asked.queue_id AND one.id_space = of_space AND one.unique_key = asked.unique_key OFFSET 0
        ) AS found
    ) AS first
    WHERE known.ctid = first.at;
    -- Of entries with one key the first one comes in. Not by a join of the entries with themselves, which the
    -- server would make for each pair, because it takes them for few.
    RETURN ARRAY(
        SELECT coalesce(given.waits, CASE
            WHEN given.unique_key IS NOT NULL AND row_number() OVER same > 1 THEN first_value(given.message_id) OVER same
        END)
        FROM unnest(of_queues, keys, ids, waiting) WITH ORDINALITY
            AS given (queue_id, unique_key, message_id, waits, place)
        WINDOW same AS (PARTITION BY given.queue_id, given.unique_key, given.waits IS NULL ORDER BY given.place)
        ORDER BY given.place
    );
END
$function$;
