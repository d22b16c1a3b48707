-- Put the next messages of a queue without order into a reader's next batch. Return their number.
-- is: generic plan, no seqscan, no bitmapscan, no hashjoin, no mergejoin, no sort
CREATE OR REPLACE FUNCTION {schema}.put_in_batch_unordered(
    of_queue integer, in_batch bigint, at_most bigint
) RETURNS bigint
AS $function$
DECLARE
    stopped integer[] := (
        SELECT array_agg(subscription_id) FROM {schema}.known_subscriptions
        WHERE queue_id = of_queue AND state <> 'started'
    );
    taken bigint;
BEGIN
    UPDATE {schema}.entries AS entry SET status = 'in_hand', batch = in_batch
    FROM (
        SELECT entry_id FROM {schema}.entries
        WHERE queue_id = of_queue AND status = 'arrived' AND (visible_at IS NULL OR visible_at <= clock_timestamp())
            AND (subscription_ids <> '{}' AND subscription_ids <@ stopped) IS NOT TRUE
        ORDER BY rank LIMIT at_most
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS next
    WHERE entry.entry_id = ANY (ARRAY[next.entry_id]);
    GET DIAGNOSTICS taken = ROW_COUNT;
    RETURN taken;
END
$function$;
