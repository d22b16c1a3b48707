-- Hand out the next messages of an `Unordered` queue, of lowest rank first, and lock each; those that others have
-- locked are skipped. `from_rank`: see `head_of`. `by_group`: with the first message leave those that follow it in
-- its group with its priority, before all others. Of a queue with a gate, messages stay whose places are too far
-- ahead of the gate (`open_at_most`). `wary`: skip those whose last transaction was rolled back. `of_entry`: only
-- this message.
-- is: definer, generic plan, no seqscan, no bitmapscan, no hashjoin, no mergejoin
CREATE OR REPLACE FUNCTION {schema}.take_unordered(
    of_queue integer, at_most integer, from_rank bigint, by_group boolean DEFAULT FALSE, wary boolean DEFAULT FALSE,
    of_entry bigint DEFAULT NULL
)
RETURNS TABLE (
    version bigint, entry_id bigint, message_id text, type text, content_type text, context text, property_types jsonb,
    body bytea, received_at timestamptz, location text, epoch bigint, number bigint, attempt integer, priority smallint,
    subscription_ids integer[], parts integer, meaning bigint[], edited boolean, group_key text, ordinal bigint
)
AS $function$
#variable_conflict use_column
DECLARE
    least_rank bigint := greatest(from_rank, {schema}.reached(of_queue));
    -- Mostly the messages too far ahead of their gate are found among the taken ones. Only if all are, each
    -- message is checked.
    each_asked boolean := FALSE;
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    LOOP
        IF by_group AND at_most > 1 AND NOT each_asked THEN
            RETURN QUERY
            WITH stopped AS (
                SELECT array_agg(subscription_id) AS ids FROM {schema}.known_subscriptions
                WHERE queue_id = of_queue AND state <> 'started'
            ), first AS (
                SELECT * FROM {schema}.entries WHERE rank >= least_rank AND queue_id = of_queue AND status = 'arrived'
                    AND {may_be_taken()}
                ORDER BY rank LIMIT 1
                FOR NO KEY UPDATE SKIP LOCKED
            ), of_group AS (
                SELECT * FROM {schema}.entries
                WHERE group_key = (SELECT group_key FROM first) AND ordinal > (SELECT ordinal FROM first)
                    AND priority = (SELECT priority FROM first) AND queue_id = of_queue AND status = 'arrived'
                    AND {may_be_taken()}
                ORDER BY ordinal LIMIT at_most - 1
                FOR NO KEY UPDATE SKIP LOCKED
            ), others AS (
                SELECT * FROM {schema}.entries
                WHERE rank >= (SELECT rank FROM first) AND entry_id <> (SELECT entry_id FROM first) AND (
                    group_key <> (SELECT group_key FROM first) OR ordinal <= (SELECT ordinal FROM first)
                    OR priority <> (SELECT priority FROM first)
                ) AND queue_id = of_queue AND status = 'arrived'
                    AND {may_be_taken()}
                ORDER BY rank LIMIT at_most - 1 - (SELECT count(*) FROM of_group)
                FOR NO KEY UPDATE SKIP LOCKED
            ), taken AS (
                SELECT * FROM first UNION ALL SELECT * FROM of_group UNION ALL SELECT * FROM others
            ), {unordered_taken()};
        ELSE
            RETURN QUERY
            WITH stopped AS (
                SELECT array_agg(subscription_id) AS ids FROM {schema}.known_subscriptions
                WHERE queue_id = of_queue AND state <> 'started'
            ), taken AS (
                SELECT * FROM {schema}.entries
                WHERE rank >= least_rank AND queue_id = of_queue AND status = 'arrived'
                    AND {may_be_taken()}
                    AND (of_entry IS NULL OR entry_id = of_entry)
                    AND (NOT each_asked OR gate_id IS NULL OR origin_number IS NOT NULL OR ordinal < (
                        SELECT (definition ->> 'open_at_most')::bigint FROM {schema}.queues WHERE queue_id = of_queue
                    ) + coalesce((
                        SELECT known.next FROM {schema}.known_groups AS known
                        WHERE known.queue_id = entries.gate_id AND known.group_key = entries.group_key
                    ), 1))
                ORDER BY rank LIMIT at_most
                FOR NO KEY UPDATE SKIP LOCKED
            ), {unordered_taken()};
        END IF;
        EXIT WHEN FOUND OR least_rank = -9223372036854775808 AND each_asked;
        each_asked := least_rank = -9223372036854775808 AND EXISTS (
            SELECT FROM {schema}.queues WHERE queue_id = of_queue AND definition ->> 'gate' IS NOT NULL
        );
        EXIT WHEN least_rank = -9223372036854775808 AND NOT each_asked;
        least_rank := -9223372036854775808;
    END LOOP;
END
$function$;
