-- Roles: which queues the roles of applications may use; and publishing from SQL, routed by whoever comes first.
-- {schema} is the name of the box.
--
-- A role has no right on any table, view or sequence. What it may call is SECURITY DEFINER: it does its work as the
-- owner of the box, and looks first whether the role may. All else is the owner's.

-- What a role may: publish to a queue, receive from it, subscribe for it; `route`, which is about no one queue: read and
-- route whatever was published through SQL.
CREATE TABLE {schema}.grants (
    role regrole NOT NULL,
    may text NOT NULL CHECK (may IN ('publish', 'receive', 'subscribe', 'route')),
    queue_id integer REFERENCES {schema}.queues ON DELETE CASCADE,
    granted_at timestamptz NOT NULL DEFAULT now(),
    granted_by text NOT NULL DEFAULT session_user,
    UNIQUE NULLS NOT DISTINCT (role, may, queue_id),
    CHECK ((queue_id IS NULL) = (may = 'route'))
);
CREATE INDEX grants_of_queue ON {schema}.grants (queue_id);

-- Who published through SQL what this call of its transaction has taken in, and the queues that it may publish to;
-- NULL: all of them. `publisher` is NULL where the message was routed before it was taken in.
ALTER TABLE {schema}.arrivals ADD COLUMN publisher text;
ALTER TABLE {schema}.arrivals ADD COLUMN permitted integer[];

-- The same until it is routed. `stamp` is that of its ticket: nothing that came later is judged before.
ALTER TABLE {schema}.to_route ADD COLUMN stamp bigint NOT NULL;
ALTER TABLE {schema}.to_route ADD COLUMN publisher text NOT NULL;
ALTER TABLE {schema}.to_route ADD COLUMN permitted integer[];
CREATE INDEX to_route_in_order ON {schema}.to_route (stamp, position);

-- Whether the waiter would route what was published through SQL.
ALTER TABLE {schema}.waiters ADD COLUMN routes boolean NOT NULL DEFAULT FALSE;

-- Who calls: the role of the session. Within a function that runs as somebody else there is no other way to know.
CREATE FUNCTION {schema}.caller() RETURNS name
LANGUAGE sql STABLE
RETURN CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role')::name END;

-- Is the caller the owner of the box, or a member of it? For functions that run as the owner.
CREATE FUNCTION {schema}.is_owner() RETURNS boolean
LANGUAGE sql STABLE
RETURN pg_has_role({schema}.caller(), current_user, 'USAGE');

-- The queues for which the caller has a right, where it isn't the owner.
CREATE FUNCTION {schema}.permitted(what text) RETURNS integer[]
LANGUAGE sql STABLE
RETURN ARRAY(
    SELECT queue_id FROM {schema}.grants
    WHERE may = what AND pg_has_role({schema}.caller(), role::oid, 'USAGE') ORDER BY queue_id
);

-- Refuse a caller that hasn't a right for all of these queues, or has it for none at all.
CREATE FUNCTION {schema}.permit(what text, queue_ids integer[]) RETURNS void
LANGUAGE plpgsql STABLE
AS $function$
DECLARE
    granted integer[];
    verb text := CASE what
        WHEN 'publish' THEN 'publish to' WHEN 'receive' THEN 'receive from' WHEN 'subscribe' THEN 'subscribe for'
        ELSE what END;
    place text;
BEGIN
    IF {schema}.is_owner() THEN
        RETURN;
    END IF;
    granted := {schema}.permitted(what);
    IF cardinality(granted) > 0 AND queue_ids <@ granted THEN
        RETURN;
    END IF;
    SELECT format('the queue "%s"', coalesce(
        (SELECT known.queue FROM {schema}.queues AS known WHERE known.queue_id = one), one::text
    )) INTO place
    FROM unnest(queue_ids) AS one WHERE NOT ARRAY[one] <@ granted LIMIT 1;
    RAISE EXCEPTION 'the role "%" may not % %', {schema}.caller(), verb, coalesce(place, 'any queue') USING
        ERRCODE = 'insufficient_privilege',
        HINT = 'seriatim box grant';
END
$function$;

-- Refuse a caller that may not receive from a queue, or names entries that are in another one.
CREATE FUNCTION {schema}.permit_entries(of_queue integer, entry_ids bigint[]) RETURNS void
LANGUAGE plpgsql STABLE
AS $function$
BEGIN
    IF {schema}.is_owner() THEN
        RETURN;
    END IF;
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    IF EXISTS (
        SELECT FROM {schema}.entries AS entry WHERE entry.entry_id = ANY (entry_ids) AND entry.queue_id <> of_queue
    ) THEN
        RAISE EXCEPTION 'these entries are in another queue' USING ERRCODE = 'insufficient_privilege';
    END IF;
END
$function$;

-- Refuse a caller that has no right at all.
CREATE FUNCTION {schema}.permit_anything() RETURNS void
LANGUAGE plpgsql STABLE
AS $function$
BEGIN
    IF NOT {schema}.is_owner() AND NOT EXISTS (
        SELECT FROM {schema}.grants WHERE pg_has_role({schema}.caller(), role::oid, 'USAGE')
    ) THEN
        RAISE EXCEPTION 'the role "%" may do nothing in this message box', {schema}.caller() USING
            ERRCODE = 'insufficient_privilege',
            HINT = 'seriatim box grant';
    END IF;
END
$function$;

-- Let a role call what looks by itself whether it may. Called again after a migration, for what that has made.
CREATE FUNCTION {schema}.let_in(who regrole) RETURNS void
LANGUAGE plpgsql
AS $function$
DECLARE
    door regprocedure;
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA %s TO %s', '{schema}'::regnamespace, who);
    FOR door IN
        SELECT oid FROM pg_proc
        WHERE pronamespace = '{schema}'::regnamespace AND prosecdef AND prorettype <> 'trigger'::regtype
    LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s', door, who);
    END LOOP;
END
$function$;

-- Take that back.
CREATE FUNCTION {schema}.shut_out(who regrole) RETURNS void
LANGUAGE plpgsql
AS $function$
BEGIN
    EXECUTE format('REVOKE ALL ON ALL FUNCTIONS IN SCHEMA %s FROM %s', '{schema}'::regnamespace, who);
    EXECUTE format('REVOKE ALL ON SCHEMA %s FROM %s', '{schema}'::regnamespace, who);
END
$function$;

-- The version of the schema.
CREATE FUNCTION {schema}.schema_version() RETURNS integer
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM {schema}.permit_anything();
    RETURN (SELECT max(number) FROM {schema}.migrations);
END
$function$;

-- The version of what is defined.
CREATE FUNCTION {schema}.version() RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM {schema}.permit_anything();
    RETURN (SELECT max(change.version) FROM {schema}.changes AS change);
END
$function$;

-- Everything that is defined, with its version, as of one moment. Whoever routes has to know all of it.
CREATE FUNCTION {schema}.definitions()
RETURNS TABLE (kind text, id bigint, name text, definition jsonb, state text, owner text)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
BEGIN
    PERFORM {schema}.permit_anything();
    RETURN QUERY
        SELECT 'version', max(version), NULL, NULL::jsonb, NULL, NULL FROM {schema}.changes
        UNION ALL
        SELECT 'type', NULL, type, definition, NULL, NULL FROM {schema}.types
        UNION ALL
        SELECT 'queue', queue_id, queue, definition, CASE WHEN enabled THEN 'on' ELSE 'off' END, owner
        FROM {schema}.queues
        UNION ALL
        SELECT 'subscription', subscription_id, subscription, definition, state, NULL FROM {schema}.subscriptions;
END
$function$;

-- Make a subscription, or change one.
CREATE FUNCTION {schema}.subscribe(
    named text, to_queue text, declared jsonb, its_state text
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    place integer := (SELECT queue_id FROM {schema}.queues WHERE queue = to_queue);
BEGIN
    -- Where it leads, and where it led.
    PERFORM {schema}.permit('subscribe', ARRAY(
        SELECT place
        UNION ALL
        SELECT queue_id FROM {schema}.subscriptions WHERE subscription = named
    ));
    INSERT INTO {schema}.subscriptions AS known (subscription, queue_id, definition, state)
    VALUES (named, place, declared, its_state)
    ON CONFLICT (subscription) DO UPDATE
    SET definition = excluded.definition, queue_id = excluded.queue_id, state = excluded.state;
END
$function$;

-- The next version of what is defined; whoever routes reads it anew.
CREATE FUNCTION {schema}.record_change(changed text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM {schema}.permit('subscribe', ARRAY[]::integer[]);
    INSERT INTO {schema}.changes (version, what) SELECT max(version) + 1, changed FROM {schema}.changes;
END
$function$;

-- Take a location's next numbers at once. Who may publish may have numbers.
CREATE FUNCTION {schema}.take_numbers(
    at_location text, how_many bigint, OUT epoch bigint, OUT number bigint, OUT last_number bigint
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM {schema}.permit('publish', ARRAY[]::integer[]);
    SELECT run.epoch, run.number, run.last_number INTO epoch, number, last_number
    FROM {schema}.dispense(at_location, how_many) AS run;
END
$function$;

-- Call whoever waits for a message of one of these queues: at most so many, each once. 0 among the queues stands for
-- what isn't routed yet: that calls one who routes, wherever he waits.
CREATE FUNCTION {schema}.call_waiters(of_queues integer[], how_many bigint) RETURNS void
LANGUAGE plpgsql
SET enable_seqscan = off
AS $function$
DECLARE
    called text;
BEGIN
    FOR called IN
        DELETE FROM {schema}.waiters WHERE waiter_id IN (
            SELECT waiter_id FROM {schema}.waiters
            WHERE queue_id = ANY (of_queues) ORDER BY waiter_id LIMIT how_many FOR UPDATE SKIP LOCKED
        ) RETURNING channel
    LOOP
        PERFORM pg_notify(called, '');
    END LOOP;
    IF 0 = ANY (of_queues) THEN
        DELETE FROM {schema}.waiters WHERE waiter_id = (
            SELECT waiter_id FROM {schema}.waiters WHERE routes ORDER BY waiter_id LIMIT 1 FOR UPDATE SKIP LOCKED
        ) RETURNING channel INTO called;
        IF FOUND THEN
            PERFORM pg_notify(called, '');
        END IF;
    END IF;
END
$function$;

-- At commit: number what the transaction has published. The first of its arrivals numbers all of them, in the order
-- of locations, so that two transactions never wait for each other crosswise; the others find nothing left.
-- Whoever waits for one of the messages is called: as many as there are messages, each once.
CREATE OR REPLACE FUNCTION {schema}.number_arrivals() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan
AS $function$
DECLARE
    arrival record;
    woken integer[] := ARRAY[]::integer[];
    messages bigint := 0;
BEGIN
    FOR arrival IN
        WITH mine AS (
            DELETE FROM {schema}.arrivals WHERE transaction = pg_current_xact_id()
            RETURNING location, arrival_id, count, queue_ids, publisher, permitted
        )
        SELECT * FROM mine ORDER BY location, arrival_id
    LOOP
        PERFORM {schema}.dispense(arrival.location, arrival.count, arrival.arrival_id);
        IF arrival.publisher IS NOT NULL THEN
            INSERT INTO {schema}.to_route (arrival_id, position, stamp, publisher, permitted)
            SELECT run.arrival_id, 0, run.stamp, arrival.publisher, arrival.permitted
            FROM {schema}.tickets AS run WHERE run.arrival_id = arrival.arrival_id;
        END IF;
        woken := woken || arrival.queue_ids;
        messages := messages + arrival.count;
    END LOOP;
    IF cardinality(woken) > 0 THEN
        PERFORM {schema}.call_waiters(woken, messages);
    END IF;
    RETURN NULL;
END
$function$;

-- May the caller route what was published through SQL?
CREATE FUNCTION {schema}.may_route() RETURNS boolean
LANGUAGE sql STABLE
RETURN {schema}.is_owner() OR cardinality({schema}.permitted('route')) > 0;

-- Ask to be called when a message comes to a queue.
CREATE FUNCTION {schema}.register(of_queue integer) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    number bigint;
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    INSERT INTO {schema}.waiters (queue_id, channel, routes)
    VALUES (of_queue, 'seriatim_' || pg_backend_pid(), {schema}.may_route()) RETURNING waiter_id INTO number;
    RETURN number;
END
$function$;

-- No more be called. Whoever has called already has taken the row away.
CREATE FUNCTION {schema}.unregister(waiter bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM {schema}.permit_anything();
    DELETE FROM {schema}.waiters WHERE waiter_id = waiter AND channel = 'seriatim_' || pg_backend_pid();
END
$function$;

-- Seconds until the next timer of a queue is due; NULL: there is none.
CREATE FUNCTION {schema}.next_due(of_queue integer) RETURNS float8
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    RETURN (
        SELECT (min(due_at) - {schema}.now_us()) / 1e6::float8 FROM {schema}.groups
        WHERE queue_id = of_queue AND due_at IS NOT NULL
    );
END
$function$;

-- A new id for a message: a UUID of version 7, so that ids made later sort later.
CREATE FUNCTION {schema}.new_message_id() RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL SAFE
AS $function$
DECLARE
    chance bytea := uuid_send(gen_random_uuid());
BEGIN
    -- A random UUID says version 4 and the variant already.
    chance := overlay(chance PLACING substring(int8send({schema}.now_us() / 1000) FROM 3) FROM 1);
    RETURN encode(set_byte(chance, 6, get_byte(chance, 6) & 15 | 112), 'hex')::uuid;
END
$function$;

-- Take a message in, within the caller's transaction: for triggers, procedures and other languages. It gets its ticket
-- when the transaction commits, and is then routed by whoever comes first. Answers with its id. A message whose id was
-- published before is left out. docs/how-to/publish-from-sql.md describes it.
CREATE FUNCTION {schema}.publish(
    type text, body bytea, context jsonb DEFAULT '{{}}', message_id text DEFAULT NULL, content_type text DEFAULT NULL,
    location text DEFAULT 'box'
) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_variable
DECLARE
    id text := coalesce(message_id, {schema}.new_message_id());
    wrong text;
    permitted integer[];
    arrival bigint;
BEGIN
    PERFORM {schema}.permit('publish', ARRAY[]::integer[]);
    wrong := CASE
        WHEN coalesce(type, '') = '' THEN 'a message needs a type'
        WHEN body IS NULL THEN 'the body of a message can''t be NULL, but it can be empty'
        WHEN octet_length(body) > 536870912 THEN 'the body of a message can have 536870912 bytes at most'
        WHEN id = '' THEN 'the id of a message can''t be empty; left out, it is made'
        WHEN coalesce(jsonb_typeof(context), 'null') <> 'object' THEN
            'the context of a message is a JSON object: its properties'
        WHEN coalesce(length(location), 0) NOT BETWEEN 1 AND 128 THEN 'the name of a location has 1 to 128 characters'
        WHEN location <> 'box' AND context -> 'location' <> to_jsonb(location) THEN
            'the location is given twice: as an argument, and as a property'
    END;
    IF wrong IS NULL AND context <> '{{}}' THEN
        SELECT format('the property "%s" %s', left(property.key, 128), looked.problem) INTO wrong
        FROM jsonb_each(context) AS property, LATERAL (SELECT CASE
            WHEN property.key = ANY ('{{type,message_id,ticket,epoch,received_at}}') THEN
                'can''t be given: it is an argument, or the box gives it'
            WHEN jsonb_typeof(property.value) IN ('object', 'array') THEN
                'can''t be an ' || jsonb_typeof(property.value) || ': a string, a number, a boolean or null'
            WHEN jsonb_typeof(property.value) = 'number' AND length(property.value::text) > 100 THEN
                'has more digits than a property can have'
            WHEN property.key = 'location' AND jsonb_typeof(property.value) <> 'null' AND (
                jsonb_typeof(property.value) <> 'string'
                OR length(property.value #>> '{{}}') NOT BETWEEN 1 AND 128
            ) THEN 'is not a location''s name: 1 to 128 characters'
        END AS problem) AS looked
        WHERE looked.problem IS NOT NULL ORDER BY property.key LIMIT 1;
    END IF;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION '%', wrong USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO {schema}.message_ids (message_id) VALUES (id) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN id;
    END IF;
    IF location <> 'box' THEN
        context := context || jsonb_build_object('location', location);
    END IF;
    IF NOT {schema}.is_owner() THEN
        permitted := {schema}.permitted('publish');
    END IF;
    INSERT INTO {schema}.arrivals (location, count, queue_ids, publisher, permitted)
    VALUES (coalesce(context ->> 'location', location), 1, '{{0}}', {schema}.caller(), permitted)
    RETURNING arrival_id INTO arrival;
    INSERT INTO {schema}.spool (arrival_id, position, message_id, type, content_type, context, body)
    VALUES (arrival, 0, id, type, content_type, context, body);
    RETURN id;
END
$function$;

-- Does something wait to be routed? NULL: it does, and the caller may not route it.
CREATE FUNCTION {schema}.is_unrouted() RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    PERFORM {schema}.permit_anything();
    IF NOT EXISTS (SELECT FROM {schema}.to_route) THEN
        RETURN FALSE;
    END IF;
    RETURN CASE WHEN {schema}.may_route() THEN TRUE END;
END
$function$;

-- The next messages that wait to be routed, in order of commit: so many, and so many bytes of bodies, but one at least.
-- One transaction at a time routes. `permitted`: the queues that the publisher may publish to; NULL: all.
CREATE FUNCTION {schema}.pending(at_most integer, at_most_bytes bigint)
RETURNS TABLE (
    arrival_id bigint, "position" bigint, message_id text, type text, content_type text, context text, body bytea,
    received_at timestamptz, publisher text, permitted integer[]
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
#variable_conflict use_column
BEGIN
    PERFORM {schema}.permit('route', ARRAY[]::integer[]);
    PERFORM pg_advisory_xact_lock(hashtextextended('seriatim routing', '{schema}'::regnamespace::oid::bigint));
    -- A statement of its own: its snapshot is younger than the lock.
    RETURN QUERY
    SELECT
        stored.arrival_id, stored.position, stored.message_id, stored.type, stored.content_type, stored.context::text,
        stored.body, stored.received_at, found.publisher, found.permitted
    FROM (
        SELECT
            waiting.*, sum(octet_length(body)) OVER (ORDER BY stamp, position) - octet_length(body) AS bytes_before
        FROM (
            SELECT * FROM {schema}.to_route ORDER BY stamp, position LIMIT at_most
        ) AS waiting JOIN {schema}.spool USING (arrival_id, position)
    ) AS found JOIN {schema}.spool AS stored USING (arrival_id, position)
    WHERE found.bytes_before < at_most_bytes
    ORDER BY found.stamp, found.position;
END
$function$;

-- Put messages that wait to be routed into queues, and call whoever waits for them there; the arrays are those of
-- `enter`. Answers FALSE, and does nothing, if the definitions have changed.
CREATE FUNCTION {schema}.route(
    known_version bigint, arrival_ids bigint[], positions bigint[], contexts text[], property_types text[],
    destinations integer[], problems text[],
    entry_places bigint[], entry_queues integer[], entry_groups text[], entry_sequences bigint[],
    entry_sizes bigint[], entry_priorities integer[], entry_problems text[], entry_subscriptions text[],
    entry_waits boolean[]
) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    gone bigint;
BEGIN
    PERFORM {schema}.permit('route', ARRAY[]::integer[]);
    IF NOT {schema}.route_again(
        known_version, arrival_ids, positions, contexts, property_types, destinations, problems, entry_places,
        entry_queues, entry_groups, entry_sequences, entry_sizes, entry_priorities, entry_problems,
        entry_subscriptions, entry_waits
    ) THEN
        RETURN FALSE;
    END IF;
    DELETE FROM {schema}.to_route AS known USING unnest(arrival_ids, positions) AS message (arrival_id, position)
    WHERE known.arrival_id = message.arrival_id AND known.position = message.position;
    GET DIAGNOSTICS gone = ROW_COUNT;
    IF gone <> cardinality(arrival_ids) THEN
        RAISE EXCEPTION 'these messages don''t wait to be routed' USING ERRCODE = 'insufficient_privilege';
    END IF;
    PERFORM {schema}.call_waiters(ARRAY(SELECT DISTINCT unnest(entry_queues)), gone);
    RETURN TRUE;
END
$function$;

-- Lock the next groups of a queue that have something to do, or the named one. `unrouted`: something that was published
-- through SQL waits to be routed.
CREATE FUNCTION {schema}.lock_groups(
    of_queue integer, named text, how_many integer, at_us bigint,
    OUT group_keys text[], OUT now_us bigint, OUT isolation text, OUT version bigint, OUT unrouted boolean
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    now_us := coalesce(at_us, {schema}.now_us());
    isolation := current_setting('transaction_isolation');
    version := (SELECT max(change.version) FROM {schema}.changes AS change);
    group_keys := CASE
        WHEN named IS NULL THEN {schema}.lock_next(of_queue, how_many, now_us)
        WHEN {schema}.lock_group(of_queue, named, now_us) THEN ARRAY[named]
        ELSE ARRAY[]::text[]
    END;
    unrouted := EXISTS (SELECT FROM {schema}.to_route);
END
$function$;

-- Lock groups of a queue that have a timer which is due, or a message that may be seen from now on.
CREATE FUNCTION {schema}.lock_due(
    of_queue integer, how_many integer, at_us bigint,
    OUT group_keys text[], OUT now_us bigint, OUT isolation text, OUT version bigint
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $function$
DECLARE
    candidate text;
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    now_us := coalesce(at_us, {schema}.now_us());
    isolation := current_setting('transaction_isolation');
    version := (SELECT max(change.version) FROM {schema}.changes AS change);
    group_keys := ARRAY[]::text[];
    FOR candidate IN
        SELECT known.group_key FROM {schema}.groups AS known
        WHERE known.queue_id = of_queue AND known.due_at <= now_us ORDER BY known.due_at
    LOOP
        EXIT WHEN cardinality(group_keys) >= how_many;
        IF {schema}.lock_group(of_queue, candidate, now_us) THEN
            group_keys := group_keys || candidate;
        END IF;
    END LOOP;
END
$function$;

-- What is remembered of the groups of a turn. The caller has locked them: what this reads is younger than the lock.
CREATE FUNCTION {schema}.turn_groups(of_queue integer, of_groups text[])
RETURNS TABLE (
    group_key text, incarnation integer, state bigint[], skipped bigint[], arrivals bigint, decided bigint[]
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $function$
#variable_conflict use_column
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    RETURN QUERY
    SELECT
        group_key, incarnation, ARRAY[flags, first, next, mark, last, ordinal, since, reports, clock], skipped,
        arrivals, decided
    FROM {schema}.groups
    WHERE queue_id = of_queue AND group_key = ANY (of_groups);
END
$function$;

-- The entries of a turn's groups, as columns: all that arrived (code 0), in order of commit; all that are held (1), in
-- order of arrival; and the first that are queued (2), by ordinal. The caller has locked the groups.
-- `unrouted`: something that was published through SQL waits to be routed. What was committed after that stays out:
-- whoever sees it sees that, too, for it is one statement.
CREATE FUNCTION {schema}.turn_entries(of_queue integer, of_groups text[], at_most integer)
RETURNS TABLE (
    places bigint[], codes integer[], entry_ids bigint[], sequences bigint[], sizes bigint[], ranks bigint[],
    visible bigint[], arrivals bigint[], ordinals bigint[], late boolean[], waits boolean[], unrouted boolean
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $function$
#variable_conflict use_column
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
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
                SELECT array_agg(subscription_id) FROM {schema}.subscriptions
                WHERE queue_id = of_queue AND state <> 'started'
            ) THEN 9223372036854775807
            ELSE (extract(epoch FROM visible_at) * 1000000)::bigint END) AS visible,
        array_agg(arrival) AS arrivals,
        array_agg(ordinal) AS ordinals,
        array_agg(late) AS late,
        array_agg(waits) AS waits,
        EXISTS (SELECT FROM {schema}.to_route) AS unrouted
    FROM (
        SELECT
            array_position(of_groups, entry.group_key)::bigint - 1 AS place, 0 AS code, entry.*,
            run.stamp AS first_by, entry.position AS then_by
        FROM {schema}.entries AS entry JOIN {schema}.tickets AS run USING (arrival_id)
        WHERE entry.queue_id = of_queue AND entry.group_key = ANY (of_groups) AND entry.status = 'arrived'
            AND run.stamp < coalesce((SELECT min(stamp) FROM {schema}.to_route), 9223372036854775807)
        UNION ALL
        SELECT
            array_position(of_groups, entry.group_key)::bigint - 1, 1, entry.*, entry.arrival, 0
        FROM {schema}.entries AS entry
        WHERE entry.queue_id = of_queue AND entry.group_key = ANY (of_groups) AND entry.status = 'held'
        UNION ALL
        SELECT wanted.place - 1, 2, entry.*, entry.ordinal, 0
        FROM unnest(of_groups) WITH ORDINALITY AS wanted (group_key, place)
        CROSS JOIN LATERAL (
            SELECT * FROM {schema}.entries
            WHERE queue_id = of_queue AND group_key = wanted.group_key AND status = 'queued'
            ORDER BY ordinal LIMIT at_most
        ) AS entry
        ORDER BY place, code, first_by, then_by
    ) AS found;
END
$function$;

-- What operators asked of the groups of a turn while they were locked, in order. The caller has locked the groups.
CREATE FUNCTION {schema}.turn_requests(of_queue integer, of_groups text[])
RETURNS TABLE (place integer, request_id bigint, action text)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    RETURN QUERY
    SELECT array_position(of_groups, group_key) - 1 AS place, request_id, action
    FROM {schema}.requests
    WHERE queue_id = of_queue AND group_key = ANY (of_groups) AND action <> 'look'
    ORDER BY request_id;
END
$function$;

-- The messages of entries that are handed out, in their order. The caller has locked their group.
CREATE FUNCTION {schema}.handed(of_queue integer, of_entries bigint[])
RETURNS TABLE (
    message_id text, type text, content_type text, context text, property_types jsonb, body bytea,
    received_at timestamptz, location text, epoch bigint, number bigint, attempt integer, priority smallint,
    subscription_ids integer[], parts integer
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $function$
#variable_conflict use_column
BEGIN
    PERFORM {schema}.permit_entries(of_queue, of_entries);
    RETURN QUERY
    SELECT
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
        entry.priority,
        entry.subscription_ids,
        stored.parts
    FROM unnest(of_entries) WITH ORDINALITY AS handed (entry_id, at)
    JOIN {schema}.entries AS entry USING (entry_id)
    JOIN {schema}.spool AS stored USING (arrival_id, position)
    JOIN {schema}.tickets AS run USING (arrival_id)
    JOIN {schema}.locations AS place USING (location)
    ORDER BY handed.at;
END
$function$;

-- The next messages of a queue without order, of lowest rank first, each locked; those that others have are passed over.
CREATE FUNCTION {schema}.take_unordered(of_queue integer, at_most integer)
RETURNS TABLE (
    version bigint, entry_id bigint, message_id text, type text, content_type text, context text,
    property_types jsonb, body bytea, received_at timestamptz, location text, epoch bigint, number bigint,
    attempt integer, priority smallint, subscription_ids integer[], parts integer
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $function$
#variable_conflict use_column
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    RETURN QUERY
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
        entry.priority,
        entry.subscription_ids,
        stored.parts
    FROM (
        SELECT * FROM {schema}.entries
        WHERE queue_id = of_queue AND status = 'arrived' AND (visible_at IS NULL OR visible_at <= clock_timestamp())
            AND (subscription_ids <> '{{}}' AND subscription_ids <@ (
                SELECT array_agg(subscription_id) FROM {schema}.subscriptions
                WHERE queue_id = of_queue AND state <> 'started'
            )) IS NOT TRUE
        ORDER BY rank LIMIT at_most
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS entry
    JOIN {schema}.spool AS stored USING (arrival_id, position)
    JOIN {schema}.tickets AS run USING (arrival_id)
    JOIN {schema}.locations AS place USING (location)
    ORDER BY entry.rank, entry.entry_id;
END
$function$;

-- Nobody but the owner, unless he lets them in.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA {schema} FROM PUBLIC;
