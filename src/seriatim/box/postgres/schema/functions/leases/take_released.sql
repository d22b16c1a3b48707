-- Lock the group that has waited longest with released messages, or the one `named`, and return its first entries that
-- may be handed out, at most so many. A group whose last transaction was rolled back comes after the others, with one
-- message. Groups in leases, or with an operator's request, are passed over.
-- is: no seqscan
CREATE OR REPLACE FUNCTION {schema}.take_released(
    of_queue integer, named text, at_most integer, is_set boolean, tries boolean,
    OUT group_key text, OUT entry_ids bigint[], OUT ordinals bigint[], OUT lates boolean[]
)
AS $function$
#variable_conflict use_column
DECLARE
    candidate text;
    its_most integer := CASE WHEN is_set THEN 2147483647 WHEN tries THEN 1 ELSE at_most END;
    tried integer := 0;
BEGIN
    FOR candidate IN
        SELECT known.group_key FROM {schema}.known_groups AS known
        WHERE known.queue_id = of_queue AND known.ready_rank IS NOT NULL AND (named IS NULL OR known.group_key = named)
        ORDER BY known.ready_rank
    LOOP
        tried := tried + 1;
        EXIT WHEN tried > 1000;
        CONTINUE WHEN {schema}.is_leased(of_queue, candidate);
        -- A group that isn't taken is not locked: the block releases the lock.
        BEGIN
            IF pg_try_advisory_xact_lock({schema}.group_lock(of_queue, candidate)) AND (
                -- A separate statement: its snapshot is younger than the lock.
                SELECT (one.xmax <> '0' AND {schema}.was_rolled_back(one.xmax) OR EXISTS (
                    SELECT FROM {schema}.trials WHERE queue_id = of_queue AND unit = candidate
                )) = tries AND NOT {schema}.is_leased(of_queue, candidate) AND NOT EXISTS (
                    SELECT FROM {schema}.requests AS request
                    WHERE request.queue_id = of_queue AND request.group_key = candidate AND request.action <> 'look'
                ) FROM {schema}.known_groups AS one
                WHERE one.queue_id = of_queue AND one.group_key = candidate AND one.ready_rank IS NOT NULL
            ) THEN
                SELECT array_agg(one.entry_id), array_agg(one.ordinal), array_agg(one.late)
                INTO entry_ids, ordinals, lates
                FROM (
                    SELECT entry.*, bool_or(
                        entry.visible_at > clock_timestamp()
                        OR entry.subscription_ids <> '{}' AND entry.subscription_ids <@ (
                            SELECT array_agg(known.subscription_id) FROM {schema}.known_subscriptions AS known
                            WHERE known.queue_id = of_queue AND known.state <> 'started'
                        )
                        -- Too far ahead of its gate, as in `gate_bounds`.
                        OR entry.gate_id <> of_queue AND entry.origin_number IS NULL AND entry.ordinal >= (
                            SELECT (place.definition ->> 'open_at_most')::bigint FROM {schema}.queues AS place
                            WHERE place.queue_id = of_queue
                        ) + coalesce((
                            SELECT gate.next FROM {schema}.known_groups AS gate
                            WHERE gate.queue_id = entry.gate_id AND gate.group_key = entry.group_key
                        ), 1)
                    ) OVER (ORDER BY CASE WHEN NOT is_set THEN entry.ordinal END) AS is_behind  -- a set leaves whole
                    FROM (
                        SELECT first.* FROM {schema}.entries AS first
                        WHERE first.queue_id = of_queue AND first.group_key = candidate AND first.status = 'queued'
                            -- Of sets that follow one another the first, as in failed.sql.
                            AND (NOT is_set OR first.ordinal <= coalesce((
                                SELECT nullif(part.meaning[3], 0) FROM {schema}.entries AS part
                                WHERE part.queue_id = of_queue AND part.group_key = candidate AND part.status = 'queued'
                                ORDER BY part.ordinal LIMIT 1
                            ), first.ordinal))
                        ORDER BY first.ordinal LIMIT its_most
                    ) AS entry
                    ORDER BY entry.ordinal
                ) AS one
                WHERE one.is_behind IS NOT TRUE;
                IF cardinality(entry_ids) > 0 THEN
                    group_key := candidate;
                    RETURN;
                END IF;
            END IF;
            RAISE EXCEPTION 'nothing to hand out' USING ERRCODE = 'SQ001';
        EXCEPTION WHEN SQLSTATE 'SQ001' THEN NULL;
        END;
    END LOOP;
END
$function$;
