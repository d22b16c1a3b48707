-- Hand out the next messages of an `Unordered` queue, of lowest rank first, and lock each; those that others have
-- locked are skipped. `from_rank`: see `head_of`. `by_group`: with the first message go those that follow it in its
-- group and have its priority, before all others. Of a queue with a gate, messages stay whose places are too far ahead
-- of the gate (`open_at_most`). `wary`: pass over those whose last transaction was rolled back. `of_entry`: only this message.
-- is: definer, generic plan, no seqscan, no bitmapscan, no hashjoin, no mergejoin
CREATE OR REPLACE FUNCTION {schema}.take_unordered(
    of_queue integer, at_most integer, from_rank bigint, by_group boolean DEFAULT FALSE, wary boolean DEFAULT FALSE,
    of_entry bigint DEFAULT NULL
)
RETURNS TABLE (
    version bigint, entry_id bigint, message_id text, type text, content_type text, context text, property_types jsonb,
    body bytea, received_at timestamptz, location text, epoch bigint, number bigint, attempt integer, priority smallint,
    subscription_ids integer[], parts integer, group_key text, ordinal bigint
)
AS $function$
#variable_conflict use_column
DECLARE
    least_rank bigint := greatest(from_rank, {schema}.reached(of_queue));
    -- Mostly what is too far behind its gate is found among what was taken. Only if all of that is, each message is
    -- asked.
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
                    AND (visible_at IS NULL OR visible_at <= clock_timestamp())
                    AND (subscription_ids <> '{}' AND subscription_ids <@ (SELECT ids FROM stopped)) IS NOT TRUE
                    AND NOT (
                        wary AND xmax <> '0' AND xmax <> ALL ((SELECT {schema}.running())::xid[])
                        AND {schema}.was_rolled_back(xmax)
                    )
                ORDER BY rank LIMIT 1
                FOR NO KEY UPDATE SKIP LOCKED
            ), of_group AS (
                SELECT * FROM {schema}.entries
                WHERE group_key = (SELECT group_key FROM first) AND ordinal > (SELECT ordinal FROM first)
                    AND priority = (SELECT priority FROM first) AND queue_id = of_queue AND status = 'arrived'
                    AND (visible_at IS NULL OR visible_at <= clock_timestamp())
                    AND (subscription_ids <> '{}' AND subscription_ids <@ (SELECT ids FROM stopped)) IS NOT TRUE
                    AND NOT (
                        wary AND xmax <> '0' AND xmax <> ALL ((SELECT {schema}.running())::xid[])
                        AND {schema}.was_rolled_back(xmax)
                    )
                ORDER BY ordinal LIMIT at_most - 1
                FOR NO KEY UPDATE SKIP LOCKED
            ), others AS (
                SELECT * FROM {schema}.entries
                WHERE rank >= (SELECT rank FROM first) AND entry_id <> (SELECT entry_id FROM first) AND (
                    group_key <> (SELECT group_key FROM first) OR ordinal <= (SELECT ordinal FROM first)
                    OR priority <> (SELECT priority FROM first)
                ) AND queue_id = of_queue AND status = 'arrived'
                    AND (visible_at IS NULL OR visible_at <= clock_timestamp())
                    AND (subscription_ids <> '{}' AND subscription_ids <@ (SELECT ids FROM stopped)) IS NOT TRUE
                    AND NOT (
                        wary AND xmax <> '0' AND xmax <> ALL ((SELECT {schema}.running())::xid[])
                        AND {schema}.was_rolled_back(xmax)
                    )
                ORDER BY rank LIMIT at_most - 1 - (SELECT count(*) FROM of_group)
                FOR NO KEY UPDATE SKIP LOCKED
            ), taken AS (
                SELECT * FROM first UNION ALL SELECT * FROM of_group UNION ALL SELECT * FROM others
            ), noted AS MATERIALIZED (
                SELECT {schema}.reach(of_queue, min(rank)) FROM taken HAVING count(*) > 0
            ), far AS MATERIALIZED (
            SELECT one.group_key, one.bound FROM (
                SELECT
                    taken.group_key, max(taken.ordinal) AS last, (
                        SELECT (definition ->> 'open_at_most')::bigint FROM {schema}.queues WHERE queue_id = of_queue
                    ) + coalesce((
                        SELECT known.next FROM {schema}.known_groups AS known
                        WHERE known.queue_id = taken.gate_id AND known.group_key = taken.group_key
                    ), 1) AS bound
                FROM taken WHERE taken.gate_id IS NOT NULL AND taken.origin_number IS NULL
                GROUP BY taken.gate_id, taken.group_key
            ) AS one
            WHERE one.last >= one.bound
        )
        SELECT
            (SELECT max(version) FROM {schema}.changes) AS version,
            entry.entry_id,
            stored.message_id,
            stored.type,
            stored.content_type,
            stored.context::text,
            stored.property_types,
            stored.body,
            stored.received_at,
            run.location,
            run.epoch + (run.number - 1 + stored.position) / place.last_number AS epoch,
            (run.number - 1 + stored.position) % place.last_number + 1 AS number,
            entry.attempt,
            entry.priority::smallint,
            entry.subscription_ids,
            stored.parts::integer,
            entry.group_key,
            entry.ordinal
        FROM taken AS entry
        CROSS JOIN noted
        JOIN {schema}.spool AS stored
            ON stored.arrival_id = ANY (ARRAY[entry.arrival_id]) AND stored.position = ANY (ARRAY[entry.position])
        JOIN {schema}.tickets AS run ON run.arrival_id = ANY (ARRAY[entry.arrival_id])
        JOIN {schema}.locations AS place ON place.location = run.location
        LEFT JOIN far ON far.group_key = entry.group_key
        WHERE far.bound IS NULL OR entry.origin_number IS NOT NULL OR entry.ordinal < far.bound
        ORDER BY entry.rank, entry.entry_id;
        ELSE
            RETURN QUERY
            WITH stopped AS (
                SELECT array_agg(subscription_id) AS ids FROM {schema}.known_subscriptions
                WHERE queue_id = of_queue AND state <> 'started'
            ), taken AS (
                SELECT * FROM {schema}.entries
                WHERE rank >= least_rank AND queue_id = of_queue AND status = 'arrived'
                    AND (visible_at IS NULL OR visible_at <= clock_timestamp())
                    AND (subscription_ids <> '{}' AND subscription_ids <@ (SELECT ids FROM stopped)) IS NOT TRUE
                    AND NOT (
                        wary AND xmax <> '0' AND xmax <> ALL ((SELECT {schema}.running())::xid[])
                        AND {schema}.was_rolled_back(xmax)
                    )
                    AND (of_entry IS NULL OR entry_id = of_entry)
                    AND (NOT each_asked OR gate_id IS NULL OR origin_number IS NOT NULL OR ordinal < (
                        SELECT (definition ->> 'open_at_most')::bigint FROM {schema}.queues WHERE queue_id = of_queue
                    ) + coalesce((
                        SELECT known.next FROM {schema}.known_groups AS known
                        WHERE known.queue_id = entries.gate_id AND known.group_key = entries.group_key
                    ), 1))
                ORDER BY rank LIMIT at_most
                FOR NO KEY UPDATE SKIP LOCKED
            ), noted AS MATERIALIZED (
                SELECT {schema}.reach(of_queue, min(rank)) FROM taken HAVING count(*) > 0
            ), far AS MATERIALIZED (
            SELECT one.group_key, one.bound FROM (
                SELECT
                    taken.group_key, max(taken.ordinal) AS last, (
                        SELECT (definition ->> 'open_at_most')::bigint FROM {schema}.queues WHERE queue_id = of_queue
                    ) + coalesce((
                        SELECT known.next FROM {schema}.known_groups AS known
                        WHERE known.queue_id = taken.gate_id AND known.group_key = taken.group_key
                    ), 1) AS bound
                FROM taken WHERE taken.gate_id IS NOT NULL AND taken.origin_number IS NULL
                GROUP BY taken.gate_id, taken.group_key
            ) AS one
            WHERE one.last >= one.bound
        )
        SELECT
            (SELECT max(version) FROM {schema}.changes) AS version,
            entry.entry_id,
            stored.message_id,
            stored.type,
            stored.content_type,
            stored.context::text,
            stored.property_types,
            stored.body,
            stored.received_at,
            run.location,
            run.epoch + (run.number - 1 + stored.position) / place.last_number AS epoch,
            (run.number - 1 + stored.position) % place.last_number + 1 AS number,
            entry.attempt,
            entry.priority::smallint,
            entry.subscription_ids,
            stored.parts::integer,
            entry.group_key,
            entry.ordinal
        FROM taken AS entry
        CROSS JOIN noted
        JOIN {schema}.spool AS stored
            ON stored.arrival_id = ANY (ARRAY[entry.arrival_id]) AND stored.position = ANY (ARRAY[entry.position])
        JOIN {schema}.tickets AS run ON run.arrival_id = ANY (ARRAY[entry.arrival_id])
        JOIN {schema}.locations AS place ON place.location = run.location
        LEFT JOIN far ON far.group_key = entry.group_key
        WHERE far.bound IS NULL OR entry.origin_number IS NOT NULL OR entry.ordinal < far.bound
        ORDER BY entry.rank, entry.entry_id;
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
