-- The turn of a gate: which places are closed, and so may leave.

-- Results of closed places become messages that have arrived: those of the run of closed places from the group's next number on, at most
-- `most` numbers of each group; and, as far as the clock of a hole needs it, those of the first closed place behind an open one. Results
-- whose numbers are below the next one come, too: they are late. Of the groups `forced` (as long as `of_groups`; NULL: of none) all
-- results up to that number come: their places are closed by force.
--
-- `late_places`, `late_numbers`: likewise those whose results leave flagged as late.
-- `full_groups`: the groups of which `open_at_most` numbers, or more, were given from the next one on.
-- `void_places`, `void_numbers`: the closed places that have no result, by group (from 0) and number. `more`: whether a group has
-- more closed places, for which it is looked at again.
--
-- A place that was given a number is open as long as an entry of it exists. So the numbers are read first, then what is alive, and
-- then the results, each by a statement of its own, with a younger snapshot: of what had ended by the second look all results
-- are there in the third. The caller has locked the groups.
CREATE FUNCTION {schema}.close_places(
    of_gate integer, of_origin integer, of_groups text[], most integer, open_at_most integer, forced bigint[] DEFAULT NULL,
    OUT group_keys text[], OUT void_places bigint[], OUT void_numbers bigint[], OUT more boolean, OUT full_groups text[],
    OUT late_places bigint[], OUT late_numbers bigint[]
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
    waiting bigint;
    behind bigint;
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
            UPDATE {schema}.entries AS entry SET
                status = 'arrived', gate_id = coalesce(next_gate, gate_id),
                origin_number = CASE WHEN next_gate IS NULL THEN origin_number END
            WHERE entry.queue_id = of_gate AND entry.group_key = of_group AND entry.status = 'placed';
            CONTINUE;
        END IF;
        -- Nothing leaves a group that is suspended or faulted: it is looked at when it goes on.
        CONTINUE WHEN known.flags & 24 <> 0 AND forced[place] IS NULL AND NOT EXISTS (
            SELECT FROM {schema}.requests AS request
            WHERE request.queue_id = of_gate AND request.group_key = of_group AND request.action = 'resume'
        );
        following := coalesce(known.next, 1);
        DELETE FROM {schema}.late_places AS late
        WHERE late.gate_id = of_gate AND late.group_key = of_group AND late.number < following;
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
        -- Likewise.
        WITH came AS (
            UPDATE {schema}.entries AS entry SET
                status = 'arrived', gate_id = coalesce(next_gate, gate_id),
                origin_number = CASE WHEN next_gate IS NULL THEN origin_number END
            WHERE entry.queue_id = of_gate AND entry.group_key = of_group AND entry.status = 'placed'
                AND entry.origin_number <= greatest(last, following - 1, forced[place])
            RETURNING entry.sequence
        )
        SELECT coalesce(array_agg(DISTINCT sequence), '{{}}') INTO found FROM came;
        voids := ARRAY(
            SELECT number FROM generate_series(following, last) AS number
            EXCEPT SELECT unnest(found)
            EXCEPT SELECT entry.sequence FROM {schema}.entries AS entry
            WHERE entry.queue_id = of_gate AND entry.group_key = of_group AND entry.status IN ('held', 'arrived')
                AND NOT entry.late AND entry.sequence >= following AND entry.sequence <= last
            ORDER BY number
        );
        IF alive IS NOT NULL AND NOT goes_on THEN
            -- What waits behind an open place already, and what else would be the first to wait.
            waiting := (
                SELECT entry.sequence FROM {schema}.entries AS entry
                WHERE entry.queue_id = of_gate AND entry.group_key = of_group AND entry.status = 'held'
                    AND NOT entry.late AND entry.sequence > alive
                ORDER BY entry.sequence LIMIT 1
            );
            behind := (
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
            IF behind IS NOT NULL THEN
                UPDATE {schema}.entries AS entry SET
                    status = 'arrived', gate_id = coalesce(next_gate, gate_id),
                    origin_number = CASE WHEN next_gate IS NULL THEN origin_number END
                WHERE entry.queue_id = of_gate AND entry.group_key = of_group AND entry.status = 'placed'
                    AND entry.origin_number = behind;
            END IF;
            behind := coalesce(behind, waiting);
            IF behind IS NOT NULL THEN
                voids := voids || ARRAY(
                    SELECT number FROM generate_series(alive, behind - 1) AS number
                    EXCEPT SELECT coalesce(entry.origin_number, entry.ordinal) FROM {schema}.entries AS entry
                    WHERE entry.gate_id = of_gate AND entry.gate_id <> entry.queue_id
                        AND coalesce(entry.origin_group, entry.group_key) = of_group
                        AND coalesce(entry.origin_number, entry.ordinal) >= alive
                        AND coalesce(entry.origin_number, entry.ordinal) < behind
                    EXCEPT SELECT entry.sequence FROM {schema}.entries AS entry
                    WHERE entry.queue_id = of_gate AND entry.group_key = of_group AND entry.status IN ('placed', 'arrived')
                        AND entry.sequence >= alive AND entry.sequence < behind
                    ORDER BY number
                );
            END IF;
        END IF;
        -- After the look at what is alive: of what has ended it is there.
        found := ARRAY(
            SELECT late.number FROM {schema}.late_places AS late WHERE late.gate_id = of_gate AND late.group_key = of_group
        );
        late_numbers := late_numbers || found;
        late_places := late_places || array_fill(place::bigint - 1, ARRAY[cardinality(found)]);
        void_numbers := void_numbers || voids;
        void_places := void_places || array_fill(place::bigint - 1, ARRAY[cardinality(voids)]);
    END LOOP;
END
$function$;

-- The groups of a gate are looked at again: what they wait for may be there.
CREATE FUNCTION {schema}.look_at_places(of_gate integer, of_groups text[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_gate]);
    INSERT INTO {schema}.requests (queue_id, group_key, action, rank)
    SELECT of_gate, group_key, 'look', {schema}.now_us() FROM unnest(of_groups) AS wanted (group_key);
    PERFORM {schema}.call_waiters(ARRAY[of_gate], cardinality(of_groups));
END
$function$;

-- What nobody receives is judged all the same: groups of a gate, too.
DO $due$
DECLARE
    known oid := '{schema}.lock_due'::regproc;
    before text := pg_get_functiondef(known);
    old text := $q$    END LOOP;
END
$q$;
BEGIN
    IF (length(before) - length(replace(before, old, ''))) <> length(old) THEN
        RAISE EXCEPTION 'not once in lock_due: %', old;
    END IF;
    EXECUTE replace(before, old, $q$    END LOOP;
    FOR candidate IN
        SELECT DISTINCT request.group_key FROM {schema}.requests AS request
        WHERE request.queue_id = of_queue AND request.action = 'look' AND from_rank IS NOT NULL AND through IS NULL
    LOOP
        EXIT WHEN cardinality(group_keys) >= how_many;
        CONTINUE WHEN candidate = ANY (tried);
        IF {schema}.lock_group(of_queue, candidate, now_us) THEN
            group_keys := group_keys || candidate;
        END IF;
    END LOOP;
END
$q$);
END
$due$;

-- How many places of an origin group haven't passed its gate: they are open, or wait there. The caller has locked the gate's group.
CREATE FUNCTION {schema}.places_left(of_gate integer, of_origin integer, of_group text) RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM {schema}.permit('see', ARRAY[of_gate]);
    RETURN greatest({schema}.place_numbers_given(of_origin, of_group) + 1 - coalesce((
        SELECT known.next FROM {schema}.known_groups AS known
        WHERE known.queue_id = of_gate AND known.group_key = of_group
    ), 1), 0);
END
$function$;

-- Is nothing left at a gate of a group whose queue it serves?
CREATE FUNCTION {schema}.gate_is_idle(of_gate integer, of_origin integer, of_group text) RETURNS boolean
LANGUAGE sql STABLE
RETURN {schema}.place_numbers_given(of_origin, of_group) < coalesce((
    SELECT known.next FROM {schema}.known_groups AS known
    WHERE known.queue_id = of_gate AND known.group_key = of_group AND known.flags & 24 = 0
), 1) AND NOT EXISTS (
    SELECT FROM {schema}.entries AS entry WHERE entry.queue_id = of_gate AND entry.group_key = of_group
);

-- A group of an origin queue that is forgotten begins at 1 again, and so does its group at the gate. One is forgotten only if none of
-- its places is left, and the other is idle, too. A gate's group isn't forgotten for itself.
DO $expired$
DECLARE
    known oid := '{schema}.forget_expired'::regproc;
    body text := pg_get_functiondef(known);
    one record;
BEGIN
    FOR one IN
        SELECT * FROM (VALUES
            ($q$    latest integer;
BEGIN
$q$, $q$    latest integer;
    its_gate integer := (
        SELECT gate.queue_id FROM {schema}.queues AS origin
        JOIN {schema}.queues AS gate ON gate.queue = origin.definition ->> 'gate' WHERE origin.queue_id = of_queue
    );
BEGIN
    forgotten := 0;
    IF EXISTS (
        SELECT FROM {schema}.queues AS gate JOIN {schema}.queues AS origin ON gate.queue = origin.definition ->> 'gate'
        WHERE gate.queue_id = of_queue
    ) THEN
        RETURN;
    END IF;
$q$),
            ($q$WHERE pg_try_advisory_xact_lock({schema}.group_lock(of_queue, group_key));$q$,
            $q$WHERE pg_try_advisory_xact_lock({schema}.group_lock(of_queue, group_key))
        AND (its_gate IS NULL OR pg_try_advisory_xact_lock({schema}.group_lock(its_gate, group_key)));$q$),
            ($q$        RETURNING known.incarnation
    )$q$, $q$            AND (its_gate IS NULL OR {schema}.gate_is_idle(its_gate, of_queue, known.group_key))
        RETURNING known.incarnation, known.group_key
    ), passed AS (
        DELETE FROM {schema}.known_groups AS other USING gone
        WHERE other.queue_id = its_gate AND other.group_key = gone.group_key
    )$q$)
        ) AS wanted (old, new)
    LOOP
        IF (length(body) - length(replace(body, one.old, ''))) <> length(one.old) THEN
            RAISE EXCEPTION 'not once in forget_expired: %', one.old;
        END IF;
        body := replace(body, one.old, one.new);
    END LOOP;
    EXECUTE body;
END
$expired$;

-- Of each group of an origin queue the first number that isn't handed out: it is too far behind the next one at the gate.
CREATE FUNCTION {schema}.gate_bounds(of_origin integer, of_gate integer, of_groups text[], open_at_most integer)
RETURNS bigint[]
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_origin]);
    RETURN ARRAY(
        SELECT coalesce(known.next, 1) + open_at_most
        FROM unnest(of_groups) WITH ORDINALITY AS wanted (group_key, place)
        LEFT JOIN {schema}.known_groups AS known ON known.queue_id = of_gate AND known.group_key = wanted.group_key
        ORDER BY wanted.place
    );
END
$function$;

-- Groups of an origin queue whose gate was full: it has moved on, so they are looked at again.
CREATE FUNCTION {schema}.look_at_origin(of_gate integer, of_origin integer, of_groups text[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_gate]);
    -- An unordered queue is asked for messages, and no group of it is looked at.
    INSERT INTO {schema}.requests (queue_id, group_key, action, rank)
    SELECT of_origin, group_key, 'look', {schema}.now_us() FROM unnest(of_groups) AS wanted (group_key)
    WHERE (SELECT definition #>> '{{policy,name}}' FROM {schema}.queues WHERE queue_id = of_origin) <> 'unordered';
    PERFORM {schema}.call_waiters(ARRAY[of_origin], cardinality(of_groups));
END
$function$;

-- A message of an unordered queue whose place is too far behind the next one at the gate isn't handed out.
DO $bound$
DECLARE
    known oid := '{schema}.take_unordered'::regproc;
    before text := pg_get_functiondef(known);
    old text := $q$                AND (visible_at IS NULL OR visible_at <= clock_timestamp())
$q$;
BEGIN
    IF (length(before) - length(replace(before, old, ''))) <> length(old) THEN
        RAISE EXCEPTION 'not once in take_unordered: %', old;
    END IF;
    EXECUTE replace(before, old, old || $q$                AND (gate_id IS NULL OR origin_number IS NOT NULL OR ordinal < (
                    SELECT (definition ->> 'open_at_most')::bigint FROM {schema}.queues WHERE queue_id = of_queue
                ) + coalesce((
                    SELECT known.next FROM {schema}.known_groups AS known
                    WHERE known.queue_id = entries.gate_id AND known.group_key = entries.group_key
                ), 1))
$q$);
END
$bound$;
