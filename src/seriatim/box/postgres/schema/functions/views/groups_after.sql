-- Return the next groups by queue and key: at most `most`, after a queue and key. `among`: `all`; `standing`: those
-- that may be stopped; `faulted`: those that are. `lowest` and `below` bound the keys, so that a pattern with a fixed
-- beginning reads only keys with that beginning. `only_keys`: only groups with these keys; NULL: all keys. A role gets
-- the groups of the queues that it sees.
-- is: stable, 50 rows, definer, no seqscan, no bitmapscan, no sort
CREATE OR REPLACE FUNCTION {schema}.groups_after(
    of_queue text, only_keys text[], among text, pattern text, lowest text, below text, after_queue text,
    after_key text,
    most integer
) RETURNS TABLE (queue_id integer, queue text, group_key text)
AS $function$
#variable_conflict use_column
DECLARE
    seen integer[] := {schema}.sees('see');
    place record;
    later text;
    taken integer := 0;
    returned integer;
BEGIN
    PERFORM {schema}.look('see', NULL, of_queue);
    FOR place IN
        SELECT known.queue_id, known.queue FROM {schema}.queues AS known
        WHERE known.queue_id = ANY (seen) AND (of_queue IS NULL OR known.queue = of_queue)
            AND (after_queue IS NULL OR known.queue >= after_queue)
            AND (
                known.definition #>> '{policy,name}' IS DISTINCT FROM 'unordered'
                OR jsonb_typeof(known.definition -> 'policies') = 'object'
            )
        ORDER BY known.queue
    LOOP
        EXIT WHEN taken >= most;
        -- No key is empty.
        later := CASE WHEN place.queue = after_queue THEN after_key ELSE '' END;
        IF only_keys IS NOT NULL THEN
            RETURN QUERY
            SELECT place.queue_id, place.queue, one.key
            FROM (SELECT DISTINCT named.key COLLATE "C" AS key FROM unnest(only_keys) AS named (key)) AS one
            WHERE {key_fits(one.key)} AND (
                    EXISTS (
                        SELECT FROM {schema}.known_groups AS known
                        WHERE known.queue_id = place.queue_id AND known.group_key = one.key
                    ) OR EXISTS (
                        SELECT FROM {schema}.entries AS entry
                        WHERE entry.queue_id = place.queue_id AND entry.group_key = one.key
                            AND entry.status IN ('arrived', 'placed')
                    ) OR EXISTS (
                        SELECT FROM {schema}.entries AS way
                        WHERE way.gate_id = place.queue_id AND way.gate_id <> way.queue_id
                            AND coalesce(way.origin_group, way.group_key) = one.key
                            AND coalesce(way.origin_number, way.ordinal) >= 1
                    )
                )
            ORDER BY one.key LIMIT most - taken;
        ELSIF among = 'faulted' THEN
            RETURN QUERY
            SELECT place.queue_id, place.queue, known.group_key FROM {schema}.known_groups AS known
            WHERE known.queue_id = place.queue_id AND known.flags & {flag.FAULTED} <> 0
                AND {key_fits(known.group_key)}
            ORDER BY known.group_key LIMIT most - taken;
        ELSIF among = 'standing' THEN
            RETURN QUERY
            SELECT place.queue_id, place.queue, one.group_key FROM (
                (
                    SELECT known.group_key FROM {schema}.known_groups AS known
                    WHERE known.queue_id = place.queue_id
                        AND (known.flags & {flag.SUSPENDED|FAULTED} <> 0 OR known.since <> {NEVER})
                        AND {key_fits(known.group_key)}
                    ORDER BY known.group_key LIMIT most - taken
                ) UNION (
                    -- A restart of its producer may be suspected.
                    SELECT known.group_key FROM {schema}.known_groups AS known
                    WHERE known.queue_id = place.queue_id AND known.suspects > 0
                        AND {key_fits(known.group_key)}
                    ORDER BY known.group_key LIMIT most - taken
                ) UNION (
                    -- Its first message may be postponed.
                    SELECT entry.group_key FROM {schema}.entries AS entry
                    WHERE entry.queue_id = place.queue_id AND entry.postponed_until IS NOT NULL
                        AND entry.status = 'queued'
                        AND entry.postponed_until = entry.visible_at AND entry.visible_at > clock_timestamp()
                        AND {key_fits(entry.group_key)}
                    ORDER BY entry.group_key LIMIT most - taken
                ) UNION (
                    -- An operator has requested its suspension; the end of the present turn
                    -- obeys.
                    SELECT DISTINCT asked.group_key FROM {schema}.requests AS asked
                    WHERE asked.queue_id = place.queue_id AND asked.action = 'suspend'
                        AND {key_fits(asked.group_key)}
                    ORDER BY asked.group_key LIMIT most - taken
                )
            ) AS one
            ORDER BY one.group_key LIMIT most - taken;
        ELSE
            RETURN QUERY
            -- Groups of unjudged messages are found from key to key: each step is one look into an index.
            WITH RECURSIVE step AS (
                (
                    SELECT entry.group_key, (pattern IS NULL OR entry.group_key LIKE pattern)::integer AS fitting
                    FROM {schema}.entries AS entry
                    WHERE entry.queue_id = place.queue_id
                        AND entry.group_key > later AND entry.group_key >= lowest AND entry.group_key < below
                    ORDER BY entry.group_key LIMIT 1
                )
                UNION ALL
                SELECT following.group_key,
                    step.fitting + (pattern IS NULL OR following.group_key LIKE pattern)::integer
                FROM step CROSS JOIN LATERAL (
                    SELECT entry.group_key FROM {schema}.entries AS entry
                    WHERE entry.queue_id = place.queue_id AND entry.group_key > step.group_key
                        AND entry.group_key < below
                    ORDER BY entry.group_key LIMIT 1
                ) AS following
                WHERE step.fitting < most - taken
            ), way AS (
                -- Likewise groups of a gate with messages on the way; they have a place if the first
                -- of them has a number.
                (
                    SELECT one.group_key, one.number, (one.number IS NOT NULL
                        AND (pattern IS NULL OR one.group_key LIKE pattern))::integer AS fitting
                    FROM (
                        SELECT coalesce(entry.origin_group, entry.group_key) AS group_key,
                            coalesce(entry.origin_number, entry.ordinal) AS number
                        FROM {schema}.entries AS entry
                        WHERE entry.gate_id = place.queue_id AND entry.gate_id <> entry.queue_id
                            AND coalesce(entry.origin_group, entry.group_key) > later
                            AND coalesce(entry.origin_group, entry.group_key) >= lowest
                            AND coalesce(entry.origin_group, entry.group_key) < below
                        ORDER BY coalesce(entry.origin_group, entry.group_key),
                            coalesce(entry.origin_number, entry.ordinal)
                        LIMIT 1
                    ) AS one
                )
                UNION ALL
                SELECT following.group_key, following.number, way.fitting + (following.number IS NOT NULL
                    AND (pattern IS NULL OR following.group_key LIKE pattern))::integer
                FROM way CROSS JOIN LATERAL (
                    SELECT coalesce(entry.origin_group, entry.group_key) AS group_key,
                        coalesce(entry.origin_number, entry.ordinal) AS number
                    FROM {schema}.entries AS entry
                    WHERE entry.gate_id = place.queue_id AND entry.gate_id <> entry.queue_id
                        AND coalesce(entry.origin_group, entry.group_key) > way.group_key
                        AND coalesce(entry.origin_group, entry.group_key) < below
                    ORDER BY coalesce(entry.origin_group, entry.group_key), coalesce(entry.origin_number, entry.ordinal)
                    LIMIT 1
                ) AS following
                WHERE way.fitting < most - taken
            )
            SELECT place.queue_id, place.queue, one.group_key FROM (
                (
                    SELECT known.group_key FROM {schema}.known_groups AS known
                    WHERE known.queue_id = place.queue_id
                        AND {key_fits(known.group_key)}
                    ORDER BY known.group_key LIMIT most - taken
                ) UNION (
                    SELECT step.group_key FROM step WHERE pattern IS NULL OR step.group_key LIKE pattern
                ) UNION (
                    SELECT way.group_key FROM way
                    WHERE way.number IS NOT NULL AND (pattern IS NULL OR way.group_key LIKE pattern)
                )
            ) AS one
            ORDER BY one.group_key LIMIT most - taken;
        END IF;
        GET DIAGNOSTICS returned = ROW_COUNT;
        taken := taken + returned;
    END LOOP;
END
$function$;
