-- A turn of a gate reads the results of closed places where they are. They were written once more before, as messages that have
-- arrived, in the transaction that hands them out and deletes them.

DROP FUNCTION {schema}.close_places;

-- Which places of a gate's groups are closed: the run of them from the group's next number on, at most `most` numbers of each group; and, as
-- far as the clock of a hole needs it, the first closed place behind an open one. Of the groups `forced` (as long as `of_groups`;
-- NULL: of none) all places up to that number are closed by force.
--
-- `through`, `behind`: by group, the last number whose results leave their places, and the number of that first closed place behind
-- (NULL: there is none, or it has no results). Results whose numbers are below the next one come, too: they are late.
-- `late_places`, `late_numbers`: groups (from 0) and numbers whose results leave flagged as late, also behind the next number.
-- `full_groups`: the groups of which `open_at_most` numbers, or more, were given from the next one on.
-- `void_places`, `void_numbers`: the closed places that have no result, by group (from 0) and number. `more`: whether a group has
-- more closed places, for which it is looked at again.
--
-- A place that was given a number is open as long as an entry of it exists. So the numbers are read first, then what is alive, and
-- then the results, each by a statement of its own, with a younger snapshot: of what had ended by the second look all results
-- are there in the third, and in `turn_entries_gate`. The caller has locked the groups.
CREATE FUNCTION {schema}.close_places(
    of_gate integer, of_origin integer, of_groups text[], most integer, open_at_most integer, forced bigint[] DEFAULT NULL,
    OUT group_keys text[], OUT void_places bigint[], OUT void_numbers bigint[], OUT more boolean, OUT full_groups text[],
    OUT late_places bigint[], OUT late_numbers bigint[], OUT through bigint[], OUT behind bigint[]
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_sort = off
AS $function$
DECLARE
    place integer;
    of_group text;
    known record;
    following bigint;
    given bigint;
    alive bigint;
    last bigint;
    bound bigint;
    waiting bigint;
    nearest bigint;
    goes_on boolean;
    -- A gate may have a gate itself: there the places are its own numbers.
    next_gate integer := (
        SELECT way.gate_id FROM {schema}.ways AS way WHERE way.queue_id = of_gate AND way.is_origin
    );
    found bigint[];
    voids bigint[];
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_gate]);
    group_keys := of_groups;
    void_places := ARRAY[]::bigint[];
    void_numbers := ARRAY[]::bigint[];
    more := FALSE;
    full_groups := ARRAY[]::text[];
    late_places := ARRAY[]::bigint[];
    late_numbers := ARRAY[]::bigint[];
    through := array_fill(NULL::bigint, ARRAY[cardinality(of_groups)]);
    behind := through;
    -- What this transaction has asked for is answered now: see `look_at_gate`.
    IF current_setting('seriatim.looked', TRUE) <> '' THEN
        PERFORM set_config('seriatim.looked', '', TRUE);
    END IF;
    FOR place IN 1 .. cardinality(of_groups) LOOP
        of_group := of_groups[place];
        SELECT one.next, one.flags INTO known FROM {schema}.known_groups AS one
        WHERE one.queue_id = of_gate AND one.group_key = of_group;
        IF known.flags & 2 <> 0 THEN
            -- A closed group takes nothing in: all of it is late.
            through[place] := 9223372036854775807;
            CONTINUE;
        END IF;
        -- Nothing leaves a group that is suspended or faulted: it is looked at when it goes on.
        CONTINUE WHEN known.flags & 24 <> 0 AND forced[place] IS NULL AND NOT EXISTS (
            SELECT FROM {schema}.requests AS request
            WHERE request.queue_id = of_gate AND request.group_key = of_group AND request.action = 'resume'
        );
        following := coalesce(known.next, 1);
        given := {schema}.place_numbers_given(of_origin, of_group);
        IF given >= following + open_at_most THEN
            full_groups := full_groups || of_group;
        END IF;
        -- A statement of its own: it sees what `given` counts.
        alive := (
            SELECT coalesce(entry.origin_number, entry.ordinal) FROM {schema}.entries AS entry
            WHERE entry.gate_id = of_gate AND entry.gate_id <> entry.queue_id
                AND coalesce(entry.origin_group, entry.group_key) = of_group
                AND coalesce(entry.origin_number, entry.ordinal) >= following
            ORDER BY coalesce(entry.origin_number, entry.ordinal) LIMIT 1
        );
        last := least(coalesce(alive, given + 1) - 1, given, following + most - 1);
        goes_on := last < least(coalesce(alive, given + 1) - 1, given);
        IF goes_on THEN
            more := TRUE;
            INSERT INTO {schema}.requests (queue_id, group_key, action, rank)
            VALUES (of_gate, of_group, 'look', {schema}.now_us());
        END IF;
        bound := greatest(last, following - 1, forced[place]);
        through[place] := bound;
        IF last >= following THEN
            -- Likewise.
            found := ARRAY(
                SELECT entry.origin_number FROM {schema}.entries AS entry
                WHERE entry.queue_id = of_gate AND entry.group_key = of_group AND entry.status = 'placed'
                    AND entry.origin_number >= following AND entry.origin_number <= last
                ORDER BY entry.origin_number
            );
            voids := ARRAY(
                SELECT number FROM generate_series(following, last) AS number
                WHERE number <> ALL (found)
                EXCEPT SELECT entry.sequence FROM {schema}.entries AS entry
                WHERE entry.queue_id = of_gate AND entry.group_key = of_group AND entry.status IN ('held', 'arrived')
                    AND NOT entry.late AND entry.sequence >= following AND entry.sequence <= last
                ORDER BY number
            );
        END IF;
        IF alive IS NOT NULL AND NOT goes_on THEN
            -- What waits behind an open place already, and what else would be the first to wait.
            waiting := (
                SELECT entry.sequence FROM {schema}.entries AS entry
                WHERE entry.queue_id = of_gate AND entry.group_key = of_group AND entry.status = 'held'
                    AND NOT entry.late AND entry.sequence > alive
                ORDER BY entry.sequence LIMIT 1
            );
            nearest := (
                SELECT entry.origin_number FROM {schema}.entries AS entry
                WHERE entry.queue_id = of_gate AND entry.group_key = of_group AND entry.status = 'placed'
                    AND entry.origin_number > alive AND entry.origin_number <= given
                    AND (waiting IS NULL OR entry.origin_number < waiting)
                    AND NOT EXISTS (
                        SELECT FROM {schema}.entries AS other
                        WHERE other.gate_id = of_gate AND other.gate_id <> other.queue_id
                            AND coalesce(other.origin_group, other.group_key) = of_group
                            AND coalesce(other.origin_number, other.ordinal) = entry.origin_number
                    )
                ORDER BY entry.origin_number LIMIT 1
            );
            behind[place] := nearest;
            nearest := coalesce(nearest, waiting);
            IF nearest IS NOT NULL THEN
                voids := voids || ARRAY(
                    SELECT number FROM generate_series(alive, nearest - 1) AS number
                    EXCEPT SELECT coalesce(entry.origin_number, entry.ordinal) FROM {schema}.entries AS entry
                    WHERE entry.gate_id = of_gate AND entry.gate_id <> entry.queue_id
                        AND coalesce(entry.origin_group, entry.group_key) = of_group
                        AND coalesce(entry.origin_number, entry.ordinal) >= alive
                        AND coalesce(entry.origin_number, entry.ordinal) < nearest
                    EXCEPT SELECT entry.sequence FROM {schema}.entries AS entry
                    WHERE entry.queue_id = of_gate AND entry.group_key = of_group AND entry.status IN ('placed', 'arrived')
                        AND entry.sequence >= alive AND entry.sequence < nearest
                    ORDER BY number
                );
            END IF;
        END IF;
        IF next_gate IS NOT NULL OR forced[place] IS NOT NULL THEN
            PERFORM {schema}.leave_places(of_gate, of_group, next_gate, bound, behind[place]);
        END IF;
        IF cardinality(voids) > 0 THEN
            void_numbers := void_numbers || voids;
            void_places := void_places || array_fill(place::bigint - 1, ARRAY[cardinality(voids)]);
            voids := NULL;
        END IF;
        -- After the look at what is alive: of what has ended it is there.
        found := ARRAY(
            SELECT late.number FROM {schema}.late_places AS late WHERE late.gate_id = of_gate AND late.group_key = of_group
        );
        IF cardinality(found) > 0 THEN
            -- Of what has passed, and has nothing on the way any more, all results are there.
            DELETE FROM {schema}.late_places AS late
            WHERE late.gate_id = of_gate AND late.group_key = of_group AND late.number < following AND NOT EXISTS (
                SELECT FROM {schema}.entries AS entry
                WHERE entry.gate_id = of_gate AND entry.gate_id <> entry.queue_id
                    AND coalesce(entry.origin_group, entry.group_key) = of_group
                    AND coalesce(entry.origin_number, entry.ordinal) = late.number
            );
            late_numbers := late_numbers || found;
            late_places := late_places || array_fill(place::bigint - 1, ARRAY[cardinality(found)]);
        END IF;
    END LOOP;
END
$function$;

-- Results of closed places, up to a number and of another one, become messages that have arrived: those that an operator's action is to find as
-- such, and those of a gate that has a gate itself, where they begin on the way to that one.
CREATE FUNCTION {schema}.leave_places(of_gate integer, of_group text, next_gate integer, last bigint, one bigint DEFAULT NULL)
RETURNS void
LANGUAGE sql
AS $function$
    UPDATE {schema}.entries AS entry SET
        status = 'arrived', gate_id = coalesce(next_gate, entry.gate_id),
        origin_number = CASE WHEN next_gate IS NULL THEN entry.origin_number END
    WHERE entry.queue_id = of_gate AND entry.group_key = of_group AND entry.status = 'placed'
        AND (entry.origin_number <= last OR entry.origin_number = one)
$function$;

-- `turn_entries`, for a gate: what has come are the results of closed places, as `close_places` tells them. All that is held is there,
-- because of places there are few.
CREATE FUNCTION {schema}.turn_entries_gate(of_queue integer, of_groups text[], at_most integer, through bigint[], behind bigint[])
RETURNS TABLE (
    places bigint[], codes integer[], entry_ids bigint[], sequences bigint[], sizes bigint[], ranks bigint[], visible bigint[],
    arrivals bigint[], ordinals bigint[], late boolean[], waits boolean[], times bigint[]
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_sort = off
AS $function$
#variable_conflict use_column
BEGIN
    PERFORM {schema}.permit('judge', ARRAY[of_queue]);
    RETURN QUERY
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
        array_agg(greatest(came, (extract(epoch FROM visible_at) * 1000000)::bigint)) AS times
    FROM (
        SELECT
            wanted.place - 1 AS place, 0 AS code, one.entry_id, one.sequence, one.size, one.rank, one.subscription_ids,
            one.visible_at, one.arrival, one.ordinal, one.late, one.waits,
            coalesce(one.arrived_us, run.arrived_us) AS came, coalesce(one.stamp, run.stamp) AS first_by, one.position AS then_by
        FROM unnest(of_groups, through, behind) WITH ORDINALITY AS wanted (group_key, last, nearest, place)
        CROSS JOIN LATERAL (
            (
                SELECT * FROM {schema}.entries
                WHERE queue_id = of_queue AND group_key = wanted.group_key AND status = 'placed'
                    AND origin_number <= wanted.last
            ) UNION ALL (
                SELECT * FROM {schema}.entries
                WHERE queue_id = of_queue AND group_key = wanted.group_key AND status = 'placed'
                    AND origin_number = wanted.nearest
            ) UNION ALL (
                SELECT * FROM {schema}.entries
                WHERE queue_id = of_queue AND group_key = wanted.group_key AND status >= 'arrived' AND status <= 'arrived'
            )
        ) AS one
        JOIN {schema}.tickets AS run ON run.arrival_id = ANY (ARRAY[one.arrival_id])
        UNION ALL
        SELECT
            wanted.place - 1, CASE one.status WHEN 'held' THEN 1 ELSE 2 END, one.entry_id, one.sequence, one.size, one.rank,
            one.subscription_ids, one.visible_at, one.arrival, one.ordinal, one.late, one.waits, one.arrived_us,
            CASE one.status WHEN 'held' THEN one.arrival ELSE one.ordinal END, 0
        FROM unnest(of_groups) WITH ORDINALITY AS wanted (group_key, place)
        CROSS JOIN LATERAL (
            (
                SELECT * FROM {schema}.entries
                WHERE queue_id = of_queue AND group_key = wanted.group_key AND status >= 'held' AND status <= 'held'
            ) UNION ALL (
                SELECT * FROM {schema}.entries
                WHERE queue_id = of_queue AND group_key = wanted.group_key AND status = 'queued'
                ORDER BY ordinal LIMIT at_most
            )
        ) AS one
        ORDER BY place, code, first_by, then_by
    ) AS found;
END
$function$;

-- What an application's transaction committed without completing it goes back, also where a gate's turn has handed it out from its place.
DO $back$
DECLARE
    known oid := '{schema}.put_back_committed'::regproc;
    before text := pg_get_functiondef(known);
    old text := $q$entry.status IN ('arrived', 'queued')$q$;
BEGIN
    IF (length(before) - length(replace(before, old, ''))) <> length(old) THEN
        RAISE EXCEPTION 'not once in put_back_committed: %', old;
    END IF;
    EXECUTE replace(before, old, $q$entry.status IN ('arrived', 'placed', 'queued')$q$);
END
$back$;

-- How far an origin queue hands out is looked up once for each group of what is about to be handed out. Only if all of that is too far
-- behind the gate is each message asked that is looked at.
DO $far$
DECLARE
    known oid := '{schema}.take_unordered'::regproc;
    body text := pg_get_functiondef(known);
    one record;
BEGIN
    FOR one IN
        SELECT * FROM (VALUES
            ($q$    least_rank bigint := from_rank;
$q$, $q$    least_rank bigint := from_rank;
    each_asked boolean := FALSE;
$q$),
            ($q$        RETURN QUERY
        SELECT
            (SELECT max(version)$q$, $q$        RETURN QUERY
        WITH taken AS (
            SELECT * FROM {schema}.entries
            WHERE queue_id = of_queue AND status = 'arrived' AND rank >= least_rank
                AND (visible_at IS NULL OR visible_at <= clock_timestamp())
                AND (NOT each_asked OR gate_id IS NULL OR origin_number IS NOT NULL OR ordinal < (
                    SELECT (definition ->> 'open_at_most')::bigint FROM {schema}.queues WHERE queue_id = of_queue
                ) + coalesce((
                    SELECT known.next FROM {schema}.known_groups AS known
                    WHERE known.queue_id = entries.gate_id AND known.group_key = entries.group_key
                ), 1))
                AND (subscription_ids <> '{{}}' AND subscription_ids <@ (
                    SELECT array_agg(subscription_id) FROM {schema}.known_subscriptions
                    WHERE queue_id = of_queue AND state <> 'started'
                )) IS NOT TRUE
            ORDER BY rank LIMIT at_most
            FOR NO KEY UPDATE SKIP LOCKED
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
            (SELECT max(version)$q$),
            ($q$        FROM (
            SELECT * FROM {schema}.entries
            WHERE queue_id = of_queue AND status = 'arrived' AND rank >= least_rank
                AND (visible_at IS NULL OR visible_at <= clock_timestamp())
                AND (gate_id IS NULL OR origin_number IS NOT NULL OR ordinal < (
                    SELECT (definition ->> 'open_at_most')::bigint FROM {schema}.queues WHERE queue_id = of_queue
                ) + coalesce((
                    SELECT known.next FROM {schema}.known_groups AS known
                    WHERE known.queue_id = entries.gate_id AND known.group_key = entries.group_key
                ), 1))
                AND (subscription_ids <> '{{}}' AND subscription_ids <@ (
                    SELECT array_agg(subscription_id) FROM {schema}.known_subscriptions
                    WHERE queue_id = of_queue AND state <> 'started'
                )) IS NOT TRUE
            ORDER BY rank LIMIT at_most
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS entry
$q$, $q$        FROM taken AS entry
$q$),
            ($q$        ORDER BY entry.rank, entry.entry_id;
        EXIT WHEN FOUND OR least_rank = -9223372036854775808;
        least_rank := -9223372036854775808;
$q$, $q$        LEFT JOIN far ON far.group_key = entry.group_key
        WHERE far.bound IS NULL OR entry.origin_number IS NOT NULL OR entry.ordinal < far.bound
        ORDER BY entry.rank, entry.entry_id;
        EXIT WHEN FOUND OR least_rank = -9223372036854775808 AND each_asked;
        each_asked := least_rank = -9223372036854775808 AND EXISTS (
            SELECT FROM {schema}.queues WHERE queue_id = of_queue AND definition ->> 'gate' IS NOT NULL
        );
        EXIT WHEN least_rank = -9223372036854775808 AND NOT each_asked;
        least_rank := -9223372036854775808;
$q$)
        ) AS wanted (old, new)
    LOOP
        IF (length(body) - length(replace(body, one.old, ''))) <> length(one.old) THEN
            RAISE EXCEPTION 'not once in take_unordered: %', one.old;
        END IF;
        body := replace(body, one.old, one.new);
    END LOOP;
    EXECUTE body;
END
$far$;
