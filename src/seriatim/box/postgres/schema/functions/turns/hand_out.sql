-- Hand out messages that were released before, of the group of lowest rank that has some, or of the group `named`,
-- and lock that group: no rule is needed. Return no row if a turn is needed: no such group is free, a group with
-- something to judge has waited longer, an operator has a request, a subscription isn't started, or the last turn of
-- the group was rolled back. `at_us`: the time, NULL: the clock's. `from_rank`: see `head_of`.
--
-- Messages that a transaction has completed, and the versions of the group's row that it has written, stay before the
-- others in the indexes until it ends. So it notes how far it has handed out a group, and begins behind that if the ends
-- of that portion are gone: messages that are put back or kept include the last ones.
-- is: definer, generic plan, no seqscan, no bitmapscan, no hashjoin, no mergejoin, no sort
CREATE OR REPLACE FUNCTION {schema}.hand_out(
    of_queue integer, named text, at_most integer, at_us bigint, from_rank bigint
)
RETURNS TABLE (
    version bigint, isolation text, group_key text, incarnation integer, entry_id bigint, sequence bigint,
    ordinal bigint, late boolean, message_id text, type text, content_type text, context text, property_types jsonb,
    body bytea, received_at timestamptz, location text, epoch bigint, number bigint, attempt integer,
    priority smallint, subscription_ids integer[], parts integer, meaning bigint[], edited boolean
)
AS $function$
DECLARE
    its_name CONSTANT text := 'seriatim.handed_{schema_name}_' || of_queue;
    is_first CONSTANT boolean := pg_current_xact_id_if_assigned() IS NULL; -- see `hand_out_fifo`
    handed text[] := nullif(current_setting(its_name, TRUE), '');
    -- Behind which ordinal; and the row of the group that this transaction has written, NULL: it hasn't.
    behind bigint;
    own_row tid;
    standing record;
    moment timestamptz := coalesce(to_timestamp(at_us / 1e6), clock_timestamp());
    around record;
    is_older boolean := FALSE;
    candidate text;
    its_rank bigint;
    tried text[] := ARRAY[]::text[];
    chosen text;
    line record;
    leaving integer;
    following integer;
    next_rank bigint;
    next_due bigint;
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    from_rank := greatest(from_rank, {schema}.reached(of_queue));
    SELECT
        EXISTS (
            SELECT FROM {schema}.requests AS request WHERE request.queue_id = of_queue AND request.action <> 'look'
        ) OR EXISTS (
            SELECT FROM {schema}.known_subscriptions AS one WHERE one.queue_id = of_queue AND one.state <> 'started'
        ) AS judges,
        (SELECT max(change.version) FROM {schema}.changes AS change) AS version
    INTO around;
    IF around.judges THEN
        RETURN;
    END IF;
    LOOP
        EXIT WHEN cardinality(tried) >= 40; -- each look passes over them
        -- A group without messages to hand out is not locked: the block releases the lock.
        BEGIN
            SELECT next.key, next.rank INTO candidate, its_rank
            FROM (
                SELECT known.group_key AS key, known.ready_rank AS rank FROM {schema}.known_groups AS known
                WHERE known.queue_id = of_queue AND known.ready_rank >= from_rank
                    AND (named IS NULL OR known.group_key = named) AND known.group_key <> ALL (tried)
                ORDER BY known.ready_rank LIMIT 1000
            ) AS next
            -- As many locks are tried as others hold, and one more.
            WHERE pg_try_advisory_xact_lock({schema}.group_lock(of_queue, next.key))
            LIMIT 1;
            EXIT WHEN NOT FOUND;
            IF named IS NULL THEN -- something has waited longer to be judged
                is_older := EXISTS (
                    SELECT FROM {schema}.requests AS request
                    WHERE request.queue_id = of_queue AND request.action = 'look' AND request.rank < its_rank
                ) OR EXISTS (
                    SELECT FROM {schema}.entries AS entry
                    WHERE entry.queue_id = of_queue AND entry.status = 'arrived'
                        AND entry.rank >= from_rank AND entry.rank < its_rank
                );
                IF is_older THEN
                    RAISE EXCEPTION 'nothing to hand out' USING ERRCODE = 'SQ001';
                END IF;
            END IF;
            behind := -1;
            own_row := NULL;
            IF handed[1] = candidate AND NOT EXISTS (
                SELECT FROM {schema}.entries AS entry WHERE entry.entry_id = ANY (handed[3:4]::bigint[])
            ) THEN
                behind := handed[2];
                SELECT known.*, known.ctid AS place, known.xmax AS marked INTO standing
                FROM {schema}.known_groups AS known
                WHERE known.ctid = handed[5]::tid AND known.queue_id = of_queue AND known.group_key = candidate;
                own_row := standing.place;
            END IF;
            IF own_row IS NULL THEN
                SELECT known.*, known.ctid AS place, known.xmax AS marked INTO standing
                FROM {schema}.known_groups AS known
                WHERE known.queue_id = of_queue AND known.group_key = candidate;
            END IF;
            -- A separate statement: its snapshot is younger than the lock. A request may have come
            -- before, and is obeyed by a turn that judges. The line: the requested number, and the one
            -- behind it.
            SELECT
                -- NULL: its last turn was rolled back.
                CASE
                    WHEN standing.ready_rank IS NULL THEN FALSE
                    WHEN standing.marked = '0' OR NOT {schema}.was_rolled_back(standing.marked) THEN TRUE
                END AND NOT EXISTS (
                    SELECT FROM {schema}.trials AS trial
                    WHERE trial.queue_id = of_queue AND trial.unit = candidate
                ) AND NOT EXISTS (
                    SELECT FROM {schema}.requests
                    WHERE queue_id = of_queue AND requests.group_key = candidate AND requests.action <> 'look'
                ) AND NOT EXISTS (
                    SELECT FROM {schema}.leases WHERE queue_id = of_queue AND leases.group_key = candidate
                ) AS is_ready,
                count(*) AS waiting,
                array_agg(one.ordinal) AS ordinals,
                array_agg(one.entry_id) AS ids,
                array_agg(one.rank) AS ranks,
                array_agg(one.visible_at) AS visible,
                array_agg(coalesce(one.visible_at > moment, FALSE)) AS hidden
            INTO line
            FROM (
                SELECT entry.entry_id, entry.ordinal, entry.rank, entry.visible_at FROM {schema}.entries AS entry
                WHERE entry.queue_id = of_queue AND entry.group_key = candidate AND entry.status = 'queued'
                    AND entry.ordinal > behind
                ORDER BY entry.ordinal LIMIT at_most + 1::bigint
            ) AS one;
            IF line.is_ready IS NULL THEN
                RETURN;
            ELSIF line.is_ready THEN
                chosen := candidate;
                EXIT;
            END IF;
            RAISE EXCEPTION 'nothing to hand out' USING ERRCODE = 'SQ001';
        EXCEPTION WHEN SQLSTATE 'SQ001' THEN
            EXIT WHEN is_older;
            tried := tried || candidate;
        END;
    END LOOP;
    IF chosen IS NULL THEN
        RETURN;
    END IF;
    -- If it has no more than requested, and a turn has released only a part of a run, the next one releases more
    -- first: so the group keeps its place among the others. If it has less, and more has arrived, that is judged
    -- first. The group stays locked for both.
    IF line.waiting <= at_most AND standing.flags & {flag.LEAVING} <> 0 THEN
        RETURN;
    END IF;
    IF line.waiting < at_most THEN
        PERFORM FROM {schema}.requests AS one WHERE one.queue_id = of_queue AND one.group_key = chosen;
        IF FOUND THEN
            RETURN;
        END IF;
        PERFORM FROM {schema}.entries AS one
        WHERE one.queue_id = of_queue AND one.group_key = chosen
            AND one.status >= 'arrived' AND one.status <= 'arrived' LIMIT 1;
        IF FOUND THEN
            RETURN;
        END IF;
    END IF;
    IF named IS NULL AND NOT is_first THEN
        PERFORM {schema}.reach(of_queue, its_rank);
    END IF;
    -- A message that may not be seen yet holds up those behind it.
    leaving := least(at_most, line.waiting, array_position(line.hidden, TRUE) - 1);
    following := leaving + 1;
    next_due := standing.due_at;
    IF line.hidden[following] AND line.visible[following] < 'infinity' THEN
        next_due := least(next_due, (extract(epoch FROM line.visible[following]) * 1000000)::bigint);
    ELSIF line.hidden[following] IS NOT TRUE THEN
        next_rank := line.ranks[following];
    END IF;
    IF own_row IS NULL THEN
        UPDATE {schema}.known_groups AS known
        SET ready_rank = next_rank, due_at = next_due, touched_at = now()
        WHERE known.queue_id = of_queue AND known.group_key = chosen
        RETURNING known.ctid INTO own_row;
    ELSIF (standing.ready_rank, standing.due_at) IS DISTINCT FROM (next_rank, next_due) THEN -- nobody else writes it
        UPDATE {schema}.known_groups AS known SET ready_rank = next_rank, due_at = next_due WHERE known.ctid = own_row
        RETURNING known.ctid INTO own_row;
    END IF;
    IF line.waiting > at_most AND leaving > 0 THEN
        PERFORM set_config(its_name, ARRAY[
            chosen, line.ordinals[leaving]::text, line.ids[1]::text, line.ids[leaving]::text, own_row::text
        ]::text, TRUE);
    END IF;
    RETURN QUERY
    SELECT
        around.version, current_setting('transaction_isolation'), chosen, standing.incarnation,
        entry.entry_id, entry.sequence, entry.ordinal, entry.late,
        {handed_message()}
    FROM {schema}.entries AS entry
    {of_entry()}
    WHERE entry.queue_id = of_queue AND entry.group_key = chosen AND entry.status = 'queued'
        AND entry.ordinal > behind AND entry.ordinal <= line.ordinals[leaving]
    ORDER BY entry.ordinal;
END
$function$;
