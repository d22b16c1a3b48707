-- A turn costs what it decides, not what its group holds or what has arrived for it: of both it reads a part.

-- What is held behind a hole, in the order in which it leaves: of a long run a turn reads the beginning, and looks up
-- the numbers that arrive.
CREATE INDEX entries_held ON {schema}.entries (queue_id, group_key, sequence, arrival) WHERE status = 'held' AND NOT late;
-- Few: what is late stops its group.
CREATE INDEX entries_held_late ON {schema}.entries (queue_id, group_key, arrival) WHERE status = 'held' AND late;

DROP FUNCTION {schema}.turn_entries(integer, text[], integer, xid8, xid8[]);

-- The entries of a turn's groups, as columns: the first that arrived (code 0), in order of commit; the first that are held
-- (1), by number, and the first late ones, by arrival; the first that are queued (2), by ordinal; and of a group that holds
-- more than is read of it those that are held with the number of one that arrived (3), perhaps once more. Of each group at
-- most `most_arrived`, `most_held` and `at_most`. The caller has locked the groups.
-- `unrouted`: something that was published through SQL waits to be routed. What was committed after that stays out:
-- whoever sees it sees that, too, for it is one statement. `settled`, `unsettled`: where to look for that.
CREATE FUNCTION {schema}.turn_entries(
    of_queue integer, of_groups text[], at_most integer, most_arrived integer, most_held integer,
    settled xid8 DEFAULT '0', unsettled xid8[] DEFAULT '{{}}'
)
RETURNS TABLE (
    places bigint[], codes integer[], entry_ids bigint[], sequences bigint[], sizes bigint[], ranks bigint[],
    visible bigint[], arrivals bigint[], ordinals bigint[], late boolean[], waits boolean[], unrouted boolean
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
-- What is asked for in the order of an index is read in that order.
SET enable_sort = off
AS $function$
#variable_conflict use_column
DECLARE
    unplaced text[];
    long text[];
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    -- Which groups have more that only their tickets can put in order than a turn takes in, and which hold more than it reads.
    SELECT
        array_agg(group_key) FILTER (WHERE most_arrived > 0 AND EXISTS (
            SELECT FROM {schema}.entries AS entry
            WHERE entry.queue_id = of_queue AND entry.group_key = wanted.group_key
                AND entry.status >= 'arrived' AND entry.status <= 'arrived' AND entry.stamp IS NULL
            OFFSET most_arrived
        )),
        array_agg(group_key) FILTER (WHERE EXISTS (
            SELECT FROM {schema}.known_groups AS known
            WHERE known.queue_id = of_queue AND known.group_key = wanted.group_key
                AND known.arrivals - (SELECT sum(one) FROM unnest(known.decided) AS one) > most_held
        ))
    INTO unplaced, long
    FROM unnest(of_groups) AS wanted (group_key);
    IF unplaced IS NOT NULL THEN
        -- Written down once, or each turn would have to sort them all.
        UPDATE {schema}.entries AS entry SET stamp = run.stamp
        FROM {schema}.tickets AS run
        WHERE entry.queue_id = of_queue AND entry.group_key = ANY (unplaced)
            AND entry.status >= 'arrived' AND entry.status <= 'arrived' AND entry.stamp IS NULL
            AND run.arrival_id = ANY (ARRAY[entry.arrival_id]);
    END IF;
    RETURN QUERY
    WITH around AS MATERIALIZED (
        SELECT
            left_over.unrouted,
            -- Only where it keeps something: what was routed before stands there until it is vacuumed.
            CASE
                WHEN left_over.unrouted AND EXISTS (
                    SELECT FROM {schema}.entries AS entry
                    WHERE entry.queue_id = of_queue AND entry.group_key = ANY (of_groups)
                        AND entry.status >= 'arrived' AND entry.status <= 'arrived'
                ) THEN (SELECT min(stamp) FROM {schema}.to_route)
                ELSE 9223372036854775807
            END AS bound
        FROM (SELECT {schema}.is_left(settled, unsettled) AS unrouted OFFSET 0) AS left_over
    ), come AS MATERIALIZED (
        SELECT wanted.place - 1 AS place, first.*
        FROM unnest(of_groups) WITH ORDINALITY AS wanted (group_key, place)
        CROSS JOIN LATERAL (
            SELECT one.* FROM (
                (
                    SELECT entry.*, entry.stamp AS first_by
                    FROM {schema}.entries AS entry
                    -- Said so that the index of all that has arrived isn't one to choose, and in the order of the other.
                    WHERE entry.queue_id = of_queue AND entry.group_key = wanted.group_key
                        AND entry.status >= 'arrived' AND entry.status <= 'arrived'
                        AND entry.stamp < (SELECT bound FROM around)
                    ORDER BY entry.status, entry.ordinal, entry.stamp NULLS FIRST, entry.position
                    LIMIT most_arrived
                ) UNION ALL (
                    SELECT entry.*, run.stamp
                    FROM {schema}.entries AS entry
                    JOIN {schema}.tickets AS run ON run.arrival_id = ANY (ARRAY[entry.arrival_id])
                    WHERE entry.queue_id = of_queue AND entry.group_key = wanted.group_key
                        AND entry.status >= 'arrived' AND entry.status <= 'arrived' AND entry.stamp IS NULL
                        AND run.stamp < (SELECT bound FROM around)
                )
            ) AS one
            ORDER BY one.first_by, one.position LIMIT most_arrived
        ) AS first
    )
    SELECT
        array_agg(place) AS places,
        array_agg(code) AS codes,
        array_agg(entry_id) AS entry_ids,
        array_agg(sequence) AS sequences,
        array_agg(size) AS sizes,
        array_agg(rank) AS ranks,
        array_agg(CASE
            WHEN subscription_ids <> '{{}}' AND subscription_ids <@ (
                SELECT array_agg(subscription_id) FROM {schema}.known_subscriptions
                WHERE queue_id = of_queue AND state <> 'started'
            ) THEN 9223372036854775807
            ELSE (extract(epoch FROM visible_at) * 1000000)::bigint END) AS visible,
        array_agg(arrival) AS arrivals,
        array_agg(ordinal) AS ordinals,
        array_agg(late) AS late,
        array_agg(waits) AS waits,
        (SELECT unrouted FROM around) AS unrouted
    FROM (
        SELECT
            place, 0 AS code, entry_id, sequence, size, rank, subscription_ids, visible_at, arrival, ordinal, late,
            waits, first_by, position AS then_by
        FROM come
        UNION ALL
        SELECT
            wanted.place - 1, 1, one.entry_id, one.sequence, one.size, one.rank, one.subscription_ids, one.visible_at,
            one.arrival, one.ordinal, one.late, one.waits, one.arrival, 0
        FROM unnest(of_groups) WITH ORDINALITY AS wanted (group_key, place)
        CROSS JOIN LATERAL (
            (
                SELECT entry.* FROM {schema}.entries AS entry
                WHERE entry.queue_id = of_queue AND entry.group_key = wanted.group_key
                    AND entry.status = 'held' AND NOT entry.late
                ORDER BY entry.sequence, entry.arrival LIMIT most_held
            ) UNION ALL (
                SELECT entry.* FROM {schema}.entries AS entry
                WHERE entry.queue_id = of_queue AND entry.group_key = wanted.group_key
                    AND entry.status = 'held' AND entry.late
                ORDER BY entry.arrival LIMIT most_held
            )
        ) AS one
        UNION ALL
        SELECT
            wanted.place - 1, 2, one.entry_id, one.sequence, one.size, one.rank, one.subscription_ids, one.visible_at,
            one.arrival, one.ordinal, one.late, one.waits, one.ordinal, 0
        FROM unnest(of_groups) WITH ORDINALITY AS wanted (group_key, place)
        CROSS JOIN LATERAL (
            SELECT * FROM {schema}.entries
            WHERE queue_id = of_queue AND group_key = wanted.group_key AND status = 'queued'
            ORDER BY ordinal LIMIT at_most
        ) AS one
        UNION ALL
        SELECT
            come.place, 3, same.entry_id, same.sequence, same.size, same.rank, same.subscription_ids, same.visible_at,
            same.arrival, same.ordinal, same.late, same.waits, same.arrival, 0
        FROM come CROSS JOIN LATERAL (
            SELECT entry.* FROM {schema}.entries AS entry
            WHERE entry.queue_id = of_queue AND entry.group_key = come.group_key
                AND entry.status = 'held' AND NOT entry.late
                AND entry.sequence >= come.sequence AND entry.sequence <= come.sequence
            ORDER BY entry.sequence, entry.arrival LIMIT 1
        ) AS same
        WHERE long IS NOT NULL AND come.group_key = ANY (long)
        ORDER BY place, code, first_by, then_by
    ) AS found;
END
$function$;

-- Hand out what was released before, of the group of lowest rank that has some, and lock that group: no rule has to be
-- asked. Answers with no row where there is none, where a group that has something to judge has waited longer, where an
-- operator has asked something, or a subscription isn't started: then a turn has to look. `from_rank`: see `head_of`.
CREATE OR REPLACE FUNCTION {schema}.hand_out(of_queue integer, named text, at_most integer, at_us bigint, from_rank bigint)
RETURNS TABLE (
    version bigint, isolation text, group_key text, incarnation integer, entry_id bigint, sequence bigint,
    ordinal bigint, late boolean, message_id text, type text, content_type text, context text, property_types jsonb,
    body bytea, received_at timestamptz, location text, epoch bigint, number bigint, attempt integer,
    priority smallint, subscription_ids integer[], parts integer
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $function$
DECLARE
    moment timestamptz := coalesce(to_timestamp(at_us / 1e6), clock_timestamp());
    around record;
    candidate text;
    tried text[] := ARRAY[]::text[];
    chosen text;
    of_incarnation integer;
    line record;
    leaving integer;
    following integer;
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    SELECT
        EXISTS (SELECT FROM {schema}.requests AS request WHERE request.queue_id = of_queue) OR EXISTS (
            SELECT FROM {schema}.known_subscriptions AS one WHERE one.queue_id = of_queue AND one.state <> 'started'
        ) AS judges,
        (
            SELECT entry.rank FROM {schema}.entries AS entry
            WHERE entry.queue_id = of_queue AND entry.status = 'arrived' AND entry.rank >= from_rank AND named IS NULL
            ORDER BY entry.rank LIMIT 1
        ) AS oldest,
        (SELECT max(change.version) FROM {schema}.changes AS change) AS version
    INTO around;
    IF around.judges THEN
        RETURN;
    END IF;
    LOOP
        -- A group that isn't handed out of is not locked: the block takes the lock back.
        BEGIN
            SELECT next.key INTO candidate
            FROM (
                SELECT known.group_key AS key FROM {schema}.known_groups AS known
                WHERE known.queue_id = of_queue AND known.ready_rank >= from_rank
                    AND (named IS NULL OR known.group_key = named) AND known.group_key <> ALL (tried)
                    AND (around.oldest IS NULL OR known.ready_rank <= around.oldest)
                ORDER BY known.ready_rank LIMIT 1000
            ) AS next
            -- The locks of as many groups are asked for as somebody else has, and one more.
            WHERE pg_try_advisory_xact_lock({schema}.group_lock(of_queue, next.key))
            LIMIT 1;
            EXIT WHEN NOT FOUND;
            -- A statement of its own: its snapshot is younger than the lock. A request may have come before, and is obeyed
            -- by a turn that judges. The line: as much as is asked for, and the one behind it.
            SELECT
                (
                    SELECT known.ready_rank IS NOT NULL FROM {schema}.known_groups AS known
                    WHERE known.queue_id = of_queue AND known.group_key = candidate
                ) AND NOT EXISTS (
                    SELECT FROM {schema}.requests WHERE queue_id = of_queue AND requests.group_key = candidate
                ) AND NOT EXISTS (
                    SELECT FROM {schema}.leases WHERE queue_id = of_queue AND leases.group_key = candidate
                ) AS is_ready,
                count(*) AS waiting,
                array_agg(one.ordinal) AS ordinals,
                array_agg(one.rank) AS ranks,
                array_agg(one.visible_at) AS visible,
                array_agg(coalesce(one.visible_at > moment, FALSE)) AS hidden
            INTO line
            FROM (
                SELECT entry.ordinal, entry.rank, entry.visible_at FROM {schema}.entries AS entry
                WHERE entry.queue_id = of_queue AND entry.group_key = candidate AND entry.status = 'queued'
                ORDER BY entry.ordinal LIMIT at_most + 1::bigint
            ) AS one;
            IF line.is_ready THEN
                chosen := candidate;
                EXIT;
            END IF;
            RAISE EXCEPTION 'nothing to hand out' USING ERRCODE = 'SQ001';
        EXCEPTION WHEN SQLSTATE 'SQ001' THEN
            tried := tried || candidate;
        END;
    END LOOP;
    IF chosen IS NULL THEN
        RETURN;
    END IF;
    -- Where it has no more than is asked for, and a turn has let only a part of a run go, the next one lets more go first:
    -- so the group keeps its place among the others. Where it has less, and more has arrived, that is judged first. The
    -- group stays locked for both.
    IF line.waiting <= at_most THEN
        PERFORM FROM {schema}.known_groups AS one
        WHERE one.queue_id = of_queue AND one.group_key = chosen AND one.flags & 64 <> 0; -- a run is leaving, see state.py
        IF FOUND THEN
            RETURN;
        END IF;
    END IF;
    IF line.waiting < at_most THEN
        PERFORM FROM {schema}.entries AS one
        WHERE one.queue_id = of_queue AND one.group_key = chosen
            AND one.status >= 'arrived' AND one.status <= 'arrived' LIMIT 1;
        IF FOUND THEN
            RETURN;
        END IF;
    END IF;
    -- What may not be seen yet keeps what is behind it.
    leaving := least(at_most, line.waiting, array_position(line.hidden, TRUE) - 1);
    following := leaving + 1;
    UPDATE {schema}.known_groups AS known SET
        ready_rank = CASE WHEN line.hidden[following] THEN NULL ELSE line.ranks[following] END,
        due_at = CASE WHEN line.hidden[following] AND line.visible[following] < 'infinity'
            THEN least(known.due_at, (extract(epoch FROM line.visible[following]) * 1000000)::bigint)
            ELSE known.due_at END,
        touched_at = now()
    WHERE known.queue_id = of_queue AND known.group_key = chosen
    RETURNING known.incarnation INTO of_incarnation;
    RETURN QUERY
    SELECT
        around.version, current_setting('transaction_isolation'), chosen, of_incarnation,
        entry.entry_id, entry.sequence, entry.ordinal, entry.late,
        stored.message_id, stored.type, stored.content_type, stored.context::text, stored.property_types, stored.body,
        stored.received_at, run.location,
        run.epoch + (run.number - 1 + stored.position) / place.last_number,
        (run.number - 1 + stored.position) % place.last_number + 1,
        entry.attempt, entry.priority::smallint, entry.subscription_ids, stored.parts::integer
    FROM {schema}.entries AS entry
    JOIN {schema}.spool AS stored
        ON stored.arrival_id = ANY (ARRAY[entry.arrival_id]) AND stored.position = ANY (ARRAY[entry.position])
    JOIN {schema}.tickets AS run ON run.arrival_id = ANY (ARRAY[entry.arrival_id])
    JOIN {schema}.locations AS place ON place.location = run.location
    WHERE entry.queue_id = of_queue AND entry.group_key = chosen AND entry.status = 'queued'
        AND entry.ordinal <= line.ordinals[leaving]
    ORDER BY entry.ordinal;
END
$function$;
