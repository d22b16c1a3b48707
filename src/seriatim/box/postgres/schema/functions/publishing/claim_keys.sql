-- Take keys for entries of messages that are about to come in. For each entry: NULL, it may come in; or the id of the
-- message that waits in its place, which may be an earlier one of these. A key is locked until the transaction ends
-- where it is taken, in one order for all publishers, and not where one waits already.
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
    -- Whoever had one of them has committed by now: this looks anew.
    waiting := {schema}.waiting_with(of_queues, keys, of_space);
    WITH first AS (
        SELECT DISTINCT ON (given.queue_id, given.unique_key) given.queue_id, given.unique_key, given.message_id,
            given.place
        FROM unnest(of_queues, keys, ids, waiting) WITH ORDINALITY
            AS given (queue_id, unique_key, message_id, waits, place)
        WHERE given.unique_key IS NOT NULL AND given.waits IS NULL
        ORDER BY given.queue_id, given.unique_key, given.place
    ), taken AS (
        UPDATE {schema}.unique_keys AS known SET message_id = first.message_id, arrival_id = NULL, position = NULL
        FROM first
        WHERE known.queue_id = ANY (ARRAY[first.queue_id]) AND known.id_space = of_space
            AND known.unique_key = ANY (ARRAY[first.unique_key])
    )
    SELECT array_agg(
        coalesce(given.waits, CASE WHEN given.place > first.place THEN first.message_id END) ORDER BY given.place
    )
    INTO waiting
    FROM unnest(of_queues, keys, waiting) WITH ORDINALITY AS given (queue_id, unique_key, waits, place)
    LEFT JOIN first USING (queue_id, unique_key);
    RETURN waiting;
END
$function$;
