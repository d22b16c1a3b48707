-- Dialogs: conversations of two services, each message an entry of the receiver's queue, in the group of its side.
--
-- A side writes its own row, and takes a KEY SHARE lock on the other one's while it sends; so both send at once. Who ends
-- takes both rows FOR UPDATE, in the order of their handles, and so waits until nobody sends. The lock of the group comes
-- first, which a turn has. What a verb does in a state is in kernel/dialog.py; `dialog_rules` has the same rows.

-- Which messages a dialog carries, and who sends each. Rows are never changed.
CREATE TABLE {schema}.contracts (
    contract text COLLATE "C" PRIMARY KEY CHECK (length(contract) BETWEEN 1 AND 128),
    definition jsonb NOT NULL
);
INSERT INTO {schema}.contracts (contract, definition)
VALUES ('DEFAULT', '{{"version": 1, "name": "DEFAULT", "types": {{"DEFAULT": "any"}}}}');

-- The ends of dialogs.
CREATE TABLE {schema}.services (
    service text COLLATE "C" PRIMARY KEY CHECK (length(service) BETWEEN 1 AND 128),
    queue_id integer NOT NULL REFERENCES {schema}.queues,
    definition jsonb NOT NULL
);
CREATE INDEX services_of_queue ON {schema}.services (queue_id);

-- What a verb does to a side in a state: the state afterwards, the message that comes of it, or why it is refused.
CREATE TABLE {schema}.dialog_rules (
    verb text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL,
    becomes text COLLATE "C" NOT NULL,
    tells text,
    refusal text,
    PRIMARY KEY (verb, state)
);
INSERT INTO {schema}.dialog_rules (verb, state, becomes, tells, refusal) VALUES
    ('send', 'SO', 'CO', NULL, NULL),
    ('send', 'SI', 'CO', NULL, NULL),
    ('send', 'CO', 'CO', NULL, NULL),
    ('send', 'DI', 'DI', NULL, 'the other side has ended the dialog'),
    ('send', 'DO', 'DO', NULL, 'this side has ended the dialog'),
    ('send', 'ER', 'ER', NULL, 'the dialog has failed'),
    ('send', 'CD', 'CD', NULL, 'the dialog is closed'),
    ('receive', 'SO', 'SO', NULL, NULL),
    ('receive', 'SI', 'CO', NULL, NULL),
    ('receive', 'CO', 'CO', NULL, NULL),
    ('receive', 'DI', 'DI', NULL, NULL),
    ('receive', 'DO', 'DO', NULL, NULL),
    ('receive', 'ER', 'ER', NULL, NULL),
    ('receive', 'CD', 'CD', NULL, NULL),
    ('end', 'SO', 'CD', NULL, NULL),
    ('end', 'SI', 'DO', 'EndDialog', NULL),
    ('end', 'CO', 'DO', 'EndDialog', NULL),
    ('end', 'DI', 'CD', NULL, NULL),
    ('end', 'DO', 'DO', NULL, NULL),
    ('end', 'ER', 'CD', NULL, NULL),
    ('end', 'CD', 'CD', NULL, NULL),
    ('end with error', 'SO', 'CD', NULL, NULL),
    ('end with error', 'SI', 'DO', 'Error', NULL),
    ('end with error', 'CO', 'DO', 'Error', NULL),
    ('end with error', 'DI', 'CD', NULL, NULL),
    ('end with error', 'DO', 'DO', NULL, NULL),
    ('end with error', 'ER', 'CD', NULL, NULL),
    ('end with error', 'CD', 'CD', NULL, NULL),
    ('clean up', 'SO', 'CD', NULL, NULL),
    ('clean up', 'SI', 'CD', NULL, NULL),
    ('clean up', 'CO', 'CD', NULL, NULL),
    ('clean up', 'DI', 'CD', NULL, NULL),
    ('clean up', 'DO', 'CD', NULL, NULL),
    ('clean up', 'ER', 'CD', NULL, NULL),
    ('clean up', 'CD', 'CD', NULL, NULL),
    ('set timer', 'SO', 'SO', NULL, NULL),
    ('set timer', 'SI', 'SI', NULL, NULL),
    ('set timer', 'CO', 'CO', NULL, NULL),
    ('set timer', 'DI', 'DI', NULL, NULL),
    ('set timer', 'DO', 'DO', NULL, 'this side has ended the dialog'),
    ('set timer', 'ER', 'ER', NULL, 'the dialog has failed'),
    ('set timer', 'CD', 'CD', NULL, 'the dialog is closed'),
    ('move', 'SO', 'SO', NULL, NULL),
    ('move', 'SI', 'SI', NULL, NULL),
    ('move', 'CO', 'CO', NULL, NULL),
    ('move', 'DI', 'DI', NULL, NULL),
    ('move', 'DO', 'DO', NULL, 'this side has ended the dialog'),
    ('move', 'ER', 'ER', NULL, NULL),
    ('move', 'CD', 'CD', NULL, 'the dialog is closed'),
    ('end comes', 'SO', 'SO', NULL, NULL),
    ('end comes', 'SI', 'DI', 'EndDialog', NULL),
    ('end comes', 'CO', 'DI', 'EndDialog', NULL),
    ('end comes', 'DI', 'DI', NULL, NULL),
    ('end comes', 'DO', 'CD', NULL, NULL),
    ('end comes', 'ER', 'ER', NULL, NULL),
    ('end comes', 'CD', 'CD', NULL, NULL),
    ('error comes', 'SO', 'SO', NULL, NULL),
    ('error comes', 'SI', 'ER', 'Error', NULL),
    ('error comes', 'CO', 'ER', 'Error', NULL),
    ('error comes', 'DI', 'DI', NULL, NULL),
    ('error comes', 'DO', 'CD', NULL, NULL),
    ('error comes', 'ER', 'ER', NULL, NULL),
    ('error comes', 'CD', 'CD', NULL, NULL),
    ('timer fires', 'SO', 'SO', 'Timer', NULL),
    ('timer fires', 'SI', 'SI', 'Timer', NULL),
    ('timer fires', 'CO', 'CO', 'Timer', NULL),
    ('timer fires', 'DI', 'DI', 'Timer', NULL),
    ('timer fires', 'DO', 'DO', NULL, NULL),
    ('timer fires', 'ER', 'ER', NULL, NULL),
    ('timer fires', 'CD', 'CD', NULL, NULL),
    ('lifetime ends', 'SO', 'ER', 'Error', NULL),
    ('lifetime ends', 'SI', 'ER', 'Error', NULL),
    ('lifetime ends', 'CO', 'ER', 'Error', NULL),
    ('lifetime ends', 'DI', 'ER', 'Error', NULL),
    ('lifetime ends', 'DO', 'CD', NULL, NULL),
    ('lifetime ends', 'ER', 'ER', NULL, NULL),
    ('lifetime ends', 'CD', 'CD', NULL, NULL),
    ('invalid comes', 'SO', 'SO', NULL, NULL),
    ('invalid comes', 'SI', 'ER', 'Error', NULL),
    ('invalid comes', 'CO', 'ER', 'Error', NULL),
    ('invalid comes', 'DI', 'ER', 'Error', NULL),
    ('invalid comes', 'DO', 'DO', NULL, NULL),
    ('invalid comes', 'ER', 'ER', NULL, NULL),
    ('invalid comes', 'CD', 'CD', NULL, NULL);

-- The sides of dialogs. `to_services`: the other side's service; of a monolog all of them. `send_sequence`: the number
-- that it sends next. `begun_by`: who made it needs no lock for it. `due_at`: when its timer or its lifetime ends.
CREATE TABLE {schema}.endpoints (
    handle uuid PRIMARY KEY,
    conversation_id uuid NOT NULL,
    is_initiator boolean NOT NULL,
    is_monolog boolean NOT NULL DEFAULT FALSE,
    service text COLLATE "C" NOT NULL,
    queue_id integer NOT NULL REFERENCES {schema}.queues,
    to_services text[] COLLATE "C" NOT NULL,
    contract text COLLATE "C" NOT NULL,
    group_id uuid NOT NULL,
    state text COLLATE "C" NOT NULL CHECK (state IN ('SO', 'SI', 'CO', 'DI', 'DO', 'ER', 'CD')),
    priority smallint NOT NULL CHECK (priority BETWEEN 1 AND 10),
    encryption boolean NOT NULL,
    retains boolean NOT NULL,
    send_sequence bigint NOT NULL DEFAULT 0,
    begun_by xid8 NOT NULL DEFAULT pg_current_xact_id(),
    began_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    closed_at timestamptz,
    expires_at timestamptz,
    timer_at timestamptz,
    due_at timestamptz GENERATED ALWAYS AS (least(timer_at, expires_at)) STORED,
    error_code integer,
    error text,
    UNIQUE (conversation_id, is_initiator, service)
) WITH (fillfactor = 70);
CREATE INDEX endpoints_due ON {schema}.endpoints (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX endpoints_closed ON {schema}.endpoints (closed_at) WHERE closed_at IS NOT NULL;
CREATE INDEX endpoints_of_group ON {schema}.endpoints (queue_id, group_id);
CREATE INDEX endpoints_of_contract ON {schema}.endpoints (contract);

-- What can't be delivered yet, because the other side isn't there; in order.
CREATE TABLE {schema}.transmission (
    transmission_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    handle uuid NOT NULL REFERENCES {schema}.endpoints ON DELETE CASCADE,
    to_service text COLLATE "C" NOT NULL,
    sequence bigint NOT NULL,
    type text COLLATE "C" NOT NULL,
    content_type text,
    body bytea NOT NULL,
    sent_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX transmission_of_service ON {schema}.transmission (to_service, handle, transmission_id);
CREATE INDEX transmission_of_dialog ON {schema}.transmission (handle);

-- The messages of dialogs whose service keeps them, until it ends. `message_id`: of one that came.
CREATE TABLE {schema}.dialog_messages (
    history_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    handle uuid NOT NULL REFERENCES {schema}.endpoints ON DELETE CASCADE,
    sent boolean NOT NULL,
    sequence bigint,
    type text COLLATE "C" NOT NULL,
    content_type text,
    body bytea NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    message_id text
);
CREATE INDEX dialog_messages_of_dialog ON {schema}.dialog_messages (handle, history_id);

-- The state of a side: where its lifetime is over it has failed, whether somebody has noticed it or not.
CREATE FUNCTION {schema}.state_now(state text, expires_at timestamptz) RETURNS text
LANGUAGE sql VOLATILE
RETURN CASE WHEN expires_at <= clock_timestamp() AND state IN ('SO', 'SI', 'CO', 'DI') THEN 'ER' ELSE state END;

-- Raise what a verb was refused for: for those who call it from SQL.
CREATE FUNCTION {schema}.refuse(refused text, what text, remedy text) RETURNS void
LANGUAGE plpgsql
AS $function$
BEGIN
    IF refused IS NOT NULL THEN
        RAISE EXCEPTION '%', what USING
            ERRCODE = CASE refused WHEN 'usage' THEN 'invalid_parameter_value' ELSE 'object_not_in_prerequisite_state' END,
            HINT = coalesce(remedy, '');
    END IF;
END
$function$;

-- Lock the groups of some dialogs, in the order of their ids; what the transaction has begun itself nobody else knows.
CREATE FUNCTION {schema}.lock_dialogs(handles uuid[]) RETURNS void
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $function$
DECLARE
    wanted bigint[];
    locked bigint[] := ARRAY[]::bigint[];
BEGIN
    LOOP
        SELECT coalesce(array_agg(one.lock ORDER BY one.group_id, one.queue_id), ARRAY[]::bigint[]) INTO wanted FROM (
            SELECT DISTINCT
                known.group_id, known.queue_id, {schema}.group_lock(known.queue_id, known.group_id::text) AS lock
            FROM {schema}.endpoints AS known
            WHERE known.handle = ANY (handles) AND known.begun_by <> pg_current_xact_id()
        ) AS one;
        -- A dialog may have been moved while its group was waited for.
        EXIT WHEN wanted <@ locked;
        PERFORM pg_advisory_xact_lock(one) FROM unnest(wanted) AS one;
        locked := wanted;
    END LOOP;
END
$function$;

-- Put messages into the queues of those who receive them; `receivers` are their handles. Some go `ahead` of what is
-- queued there: then a turn has to look, rather than hand out what it finds.
CREATE FUNCTION {schema}.post(
    receivers uuid[], kinds text[], content_types text[], bodies bytea[], sequences bigint[], ahead boolean
) RETURNS void
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $function$
DECLARE
    moment_us bigint := {schema}.now_us();
BEGIN
    WITH given AS MATERIALIZED (
        SELECT one.place, one.type, one.content_type, one.body, one.sequence, known.*
        FROM unnest(receivers, kinds, content_types, bodies, sequences) WITH ORDINALITY
            AS one (handle, type, content_type, body, sequence, place)
        JOIN {schema}.endpoints AS known USING (handle)
    ), arrived AS (
        INSERT INTO {schema}.arrivals (location, count, queue_ids)
        SELECT given.service, count(*), array_agg(DISTINCT given.queue_id) FROM given GROUP BY given.service
        RETURNING arrival_id, location
    ), placed AS MATERIALIZED (
        SELECT given.*, arrived.arrival_id, {schema}.new_message_id() AS message_id,
            row_number() OVER (PARTITION BY given.service ORDER BY given.place) - 1 AS position
        FROM given JOIN arrived ON arrived.location = given.service
    ), spooled AS (
        INSERT INTO {schema}.spool (arrival_id, position, message_id, type, content_type, context, body, destinations)
        SELECT
            placed.arrival_id, placed.position, placed.message_id, placed.type, placed.content_type,
            jsonb_build_object('dialog', jsonb_build_object(
                'handle', placed.handle, 'conversation_id', placed.conversation_id, 'service', placed.service,
                'far_service', placed.to_services[1], 'contract', placed.contract, 'sequence', placed.sequence,
                'is_initiator', placed.is_initiator, 'is_monolog', placed.is_monolog
            )), placed.body, 1
        FROM placed
    ), entered AS (
        INSERT INTO {schema}.entries (queue_id, group_key, rank, arrival_id, position, priority, ahead)
        SELECT
            placed.queue_id, placed.group_id::text, moment_us - (placed.priority - 5) * 10000000, placed.arrival_id,
            placed.position, placed.priority, post.ahead
        FROM placed ORDER BY placed.place
    )
    INSERT INTO {schema}.dialog_messages (handle, sent, sequence, type, content_type, body, message_id)
    SELECT placed.handle, FALSE, placed.sequence, placed.type, placed.content_type, placed.body, placed.message_id
    FROM placed WHERE placed.retains ORDER BY placed.place;
    IF ahead THEN
        INSERT INTO {schema}.requests (queue_id, group_key, action, rank)
        SELECT known.queue_id, known.group_id::text, 'look', moment_us
        FROM {schema}.endpoints AS known WHERE known.handle = ANY (receivers);
    END IF;
END
$function$;

-- An Error's body.
CREATE FUNCTION {schema}.error_body(code integer, why text) RETURNS bytea
LANGUAGE sql STABLE
RETURN convert_to(jsonb_build_object('code', code, 'text', why)::text, 'UTF8');

-- Take away what waits for a side in its queue, but for messages that its turn has in hand; with a reason it is set
-- aside, else it goes. The caller has the lock of its group. Answers with the entries that are set aside.
CREATE FUNCTION {schema}.drop_unread(of_handle uuid, in_hand text[], why text, from_sequence bigint DEFAULT NULL)
RETURNS bigint[]
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $function$
DECLARE
    own record;
    gone bigint;
    set_aside bigint[];
BEGIN
    SELECT known.queue_id, known.group_id INTO own FROM {schema}.endpoints AS known WHERE known.handle = of_handle;
    WITH unread AS (
        DELETE FROM {schema}.entries AS entry USING {schema}.spool AS stored
        WHERE entry.queue_id = own.queue_id AND entry.group_key = own.group_id::text
            AND stored.arrival_id = ANY (ARRAY[entry.arrival_id]) AND stored.position = ANY (ARRAY[entry.position])
            AND stored.context -> 'dialog' ->> 'handle' = of_handle::text AND stored.message_id <> ALL (in_hand)
            AND (from_sequence IS NULL OR (stored.context -> 'dialog' ->> 'sequence')::bigint >= from_sequence)
            -- The batch of a pipeline stays as it is.
            AND entry.batch IS NULL
        RETURNING entry.*
    ), kept AS (
        INSERT INTO {schema}.aside (
            entry_id, queue_id, group_key, disposition, reason, arrival_id, position, sequence, size, priority,
            subscription_ids, ordinal, late, attempt
        )
        SELECT
            entry_id, queue_id, group_key, 'dead', why, arrival_id, position, sequence, size, priority,
            subscription_ids, ordinal, late, attempt
        FROM unread WHERE why IS NOT NULL
    ), removed AS (
        DELETE FROM {schema}.spool AS stored USING unread
        WHERE why IS NULL AND stored.arrival_id = ANY (ARRAY[unread.arrival_id])
            AND stored.position = ANY (ARRAY[unread.position])
    )
    SELECT count(*), coalesce(array_agg(unread.entry_id ORDER BY unread.entry_id) FILTER (WHERE why IS NOT NULL), '{{}}')
    INTO gone, set_aside FROM unread;
    IF gone > 0 THEN
        INSERT INTO {schema}.requests (queue_id, group_key, action, rank)
        VALUES (own.queue_id, own.group_id::text, 'look', {schema}.now_us());
    END IF;
    RETURN set_aside;
END
$function$;

-- A side comes into a state; one that is closed has no timer any more, and keeps nothing.
CREATE FUNCTION {schema}.become(of_handle uuid, new_state text, code integer DEFAULT NULL, why text DEFAULT NULL)
RETURNS void
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
AS $function$
BEGIN
    UPDATE {schema}.endpoints AS known SET
        state = new_state,
        timer_at = CASE WHEN new_state IN ('DO', 'ER', 'CD') THEN NULL ELSE known.timer_at END,
        expires_at = CASE WHEN new_state IN ('ER', 'CD') THEN NULL ELSE known.expires_at END,
        closed_at = CASE WHEN new_state = 'CD' THEN coalesce(known.closed_at, clock_timestamp()) END,
        error_code = coalesce(code, known.error_code), error = coalesce(why, known.error)
    WHERE known.handle = of_handle;
    IF new_state IN ('DO', 'CD') THEN
        DELETE FROM {schema}.dialog_messages WHERE handle = of_handle;
    END IF;
END
$function$;

-- What the other side, or the clock, does to a side: its state, and the message that tells it. The caller has its row.
CREATE FUNCTION {schema}.happen(
    to_handle uuid, what_verb text, sequence bigint DEFAULT NULL, code integer DEFAULT NULL, why text DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
AS $function$
DECLARE
    rule record;
BEGIN
    SELECT one.* INTO rule FROM {schema}.endpoints AS known
    JOIN {schema}.dialog_rules AS one ON one.verb = what_verb AND one.state = known.state
    WHERE known.handle = to_handle;
    IF rule.becomes <> rule.state THEN
        PERFORM {schema}.become(to_handle, rule.becomes, code, why);
    END IF;
    IF rule.tells IS NOT NULL THEN
        PERFORM {schema}.post(
            ARRAY[to_handle], ARRAY[rule.tells], ARRAY[CASE WHEN rule.tells = 'Error' THEN 'application/json' END],
            ARRAY[CASE WHEN rule.tells = 'Error' THEN {schema}.error_body(code, why) ELSE '' END],
            ARRAY[CASE WHEN rule.tells = 'EndDialog' THEN sequence END], rule.tells <> 'EndDialog'
        );
    END IF;
END
$function$;

-- Whether what waits on its way from a side to a service begins with the side's first message: then it has no other side
-- there yet, or one that has received nothing.
CREATE FUNCTION {schema}.first_waits(of_handle uuid, its_service text) RETURNS boolean
LANGUAGE sql STABLE
RETURN (
    SELECT one.sequence = 0 FROM {schema}.transmission AS one
    WHERE one.to_service = its_service COLLATE "C" AND one.handle = of_handle ORDER BY one.transmission_id LIMIT 1
);

-- Make the other sides of dialogs that haven't had any, as far as there are services that take them. One that was there,
-- and is forgotten, isn't made anew: a stream would begin there in its midst.
CREATE FUNCTION {schema}.add_targets(of_handles uuid[]) RETURNS void
LANGUAGE sql
AS $function$
    INSERT INTO {schema}.endpoints (
        handle, conversation_id, is_initiator, is_monolog, service, queue_id, to_services, contract, group_id, state,
        priority, encryption, retains, expires_at
    )
    SELECT
        gen_random_uuid(), own.conversation_id, FALSE, own.is_monolog, place.service, place.queue_id,
        ARRAY[own.service], own.contract, gen_random_uuid(), 'SI', own.priority, own.encryption,
        coalesce((place.definition ->> 'retention')::boolean, FALSE), own.expires_at
    FROM {schema}.endpoints AS own
    JOIN {schema}.services AS place ON place.service = ANY (own.to_services)
    WHERE own.handle = ANY (of_handles) AND own.is_initiator AND place.definition -> 'contracts' ? own.contract
        AND (own.state = 'SO' OR {schema}.first_waits(own.handle, place.service))
    ON CONFLICT (conversation_id, is_initiator, service) DO NOTHING
$function$;

-- Begin a dialog, or a monolog to several services. Answers with its handle, or with why it is refused.
CREATE FUNCTION {schema}.try_begin(
    from_service text, to_services text[], by_contract text, lifetime interval, related_to uuid, in_group uuid,
    its_priority integer, encryption boolean, is_monolog boolean, given uuid,
    OUT handle uuid, OUT refused text, OUT what text, OUT remedy text
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $function$
#variable_conflict use_variable
DECLARE
    own record;
    related record;
    its_group uuid := in_group;
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[]::integer[]);
    PERFORM {schema}.hold_definitions();
    SELECT known.queue_id, coalesce((known.definition ->> 'retention')::boolean, FALSE) AS retains INTO own
    FROM {schema}.services AS known WHERE known.service = from_service COLLATE "C";
    refused := 'usage';
    IF own IS NULL THEN
        what := format('there is no service "%s"', left(from_service, 300));
        remedy := 'a dialog begins at a service of this box: define it';
        RETURN;
    END IF;
    PERFORM {schema}.permit('receive', ARRAY[own.queue_id]);
    IF NOT EXISTS (SELECT FROM {schema}.contracts AS known WHERE known.contract = by_contract COLLATE "C") THEN
        what := format('there is no contract "%s"', left(by_contract, 300));
        remedy := 'define it';
        RETURN;
    END IF;
    IF NOT coalesce(its_priority BETWEEN 1 AND 10, FALSE) THEN
        what := 'a priority is from 1 to 10';
        RETURN;
    END IF;
    IF lifetime <= '0' THEN
        what := 'a lifetime is more than 0';
        RETURN;
    END IF;
    IF coalesce(cardinality(to_services), 0) = 0 THEN
        what := 'the monolog has no service that it goes to';
        remedy := 'name those that listen';
        RETURN;
    END IF;
    IF EXISTS (
        SELECT FROM unnest(to_services) AS one WHERE coalesce(length(one), 0) NOT BETWEEN 1 AND 128
    ) OR cardinality(to_services) <> (SELECT count(DISTINCT one) FROM unnest(to_services) AS one) THEN
        what := 'a service''s name has 1 to 128 characters, and each is given once';
        RETURN;
    END IF;
    IF related_to IS NOT NULL AND in_group IS NOT NULL THEN
        what := 'related_to and group say the same';
        remedy := 'give one of them';
        RETURN;
    END IF;
    IF related_to IS NOT NULL THEN
        PERFORM {schema}.lock_dialogs(ARRAY[related_to]);
        SELECT known.queue_id, known.group_id INTO related
        FROM {schema}.endpoints AS known WHERE known.handle = related_to AND known.state <> 'CD';
        IF related IS NULL THEN
            what := format('there is no dialog with the handle %s', related_to);
            RETURN;
        END IF;
        IF related.queue_id <> own.queue_id THEN
            what := 'the related dialog has another queue';
            remedy := 'a conversation group is of one queue';
            RETURN;
        END IF;
        its_group := related.group_id;
    ELSIF in_group IS NOT NULL THEN
        PERFORM pg_advisory_xact_lock({schema}.group_lock(own.queue_id, in_group::text));
    END IF;
    handle := coalesce(given, gen_random_uuid());
    INSERT INTO {schema}.endpoints (
        handle, conversation_id, is_initiator, is_monolog, service, queue_id, to_services, contract, group_id, state,
        priority, encryption, retains, expires_at
    ) VALUES (
        handle, gen_random_uuid(), TRUE, is_monolog, from_service, own.queue_id, to_services, by_contract,
        coalesce(its_group, gen_random_uuid()), 'SO', its_priority, coalesce(encryption, FALSE), own.retains,
        clock_timestamp() + lifetime
    ) ON CONFLICT ON CONSTRAINT endpoints_pkey DO NOTHING;
    IF NOT FOUND THEN
        what := format('there is a dialog with the handle %s already', handle);
        remedy := 'let the box give the handle';
        handle := NULL;
        RETURN;
    END IF;
    refused := NULL;
END
$function$;

-- Begin a dialog, within the caller's transaction: for triggers, procedures and other languages.
CREATE FUNCTION {schema}.begin_dialog(
    from_service text, to_service text, contract text DEFAULT 'DEFAULT', lifetime interval DEFAULT NULL,
    related_to uuid DEFAULT NULL, in_group uuid DEFAULT NULL, priority integer DEFAULT 5, handle uuid DEFAULT NULL
) RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    done record;
BEGIN
    done := {schema}.try_begin(
        from_service, ARRAY[to_service], contract, lifetime, related_to, in_group, priority, FALSE, FALSE, handle
    );
    PERFORM {schema}.refuse(done.refused, done.what, done.remedy);
    RETURN done.handle;
END
$function$;

-- Begin one stream to several services.
CREATE FUNCTION {schema}.begin_monolog(
    from_service text, to_services text[], contract text DEFAULT 'DEFAULT', lifetime interval DEFAULT NULL,
    priority integer DEFAULT 5
) RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    done record;
BEGIN
    done := {schema}.try_begin(
        from_service, to_services, contract, lifetime, NULL, NULL, priority, FALSE, TRUE, NULL
    );
    PERFORM {schema}.refuse(done.refused, done.what, done.remedy);
    RETURN done.handle;
END
$function$;

-- Send messages of one type in one dialog, where nothing stands in their way: both sides are there, the other one's queue
-- has no limit, nothing of the dialog waits on its way, and nobody keeps the messages. Else it answers FALSE and has
-- changed nothing, and `try_send` looks at each of them. The caller has seen that no body is missing, or too large.
CREATE FUNCTION {schema}.send_straight(of_handle uuid, kind text, content_types text[], bodies bytea[]) RETURNS boolean
LANGUAGE plpgsql
AS $function$
DECLARE
    messages bigint := cardinality(bodies);
    one record;
    base bigint;
    rank bigint;
    arrival bigint;
    told jsonb;
BEGIN
    IF kind IN ('EndDialog', 'Error', 'Timer') THEN
        RETURN FALSE;
    END IF;
    FOR attempt IN 1..2 LOOP
        SELECT
            own.queue_id AS own_queue, own.group_id AS own_group, own.state, own.is_initiator,
            own.service AS own_service, rule.becomes, far.handle, far.conversation_id, far.service, far.queue_id, far.group_id, far.contract,
            far.priority,
            CASE WHEN own.begun_by <> pg_current_xact_id() THEN
                pg_advisory_xact_lock({schema}.group_lock(own.queue_id, own.group_id::text))
            END AS locked
        INTO one
        FROM {schema}.endpoints AS own
        JOIN {schema}.dialog_rules AS rule ON rule.verb = 'send' AND rule.state = own.state AND rule.refusal IS NULL
        JOIN {schema}.contracts AS agreed ON agreed.contract = own.contract
        JOIN {schema}.endpoints AS far
            ON far.conversation_id = own.conversation_id AND far.is_initiator <> own.is_initiator
            AND far.service = own.to_services[1] COLLATE "C"
        JOIN {schema}.queues AS place ON place.queue_id = far.queue_id
        WHERE own.handle = of_handle AND NOT own.is_monolog AND NOT own.retains AND NOT far.retains
            AND far.state IN ('SO', 'SI', 'CO', 'DI') AND place.definition ->> 'max_messages' IS NULL
            AND agreed.definition -> 'types' ->> kind IN (
                'any', CASE WHEN own.is_initiator THEN 'initiator' ELSE 'target' END
            )
            AND NOT EXISTS (
                SELECT FROM {schema}.transmission AS before
                WHERE before.to_service = far.service AND before.handle = own.handle
            )
        FOR KEY SHARE OF far;
        EXIT WHEN FOUND OR attempt = 2;
        -- With its first message a dialog gets its other side, unless that would be refused. One that the transaction
        -- itself has begun nobody else ends meanwhile.
        PERFORM {schema}.add_targets(ARRAY[of_handle])
        FROM {schema}.endpoints AS own JOIN {schema}.contracts AS agreed USING (contract)
        WHERE own.handle = of_handle AND own.begun_by = pg_current_xact_id() AND own.state = 'SO'
            AND NOT own.is_monolog AND NOT own.retains
            AND (own.expires_at > clock_timestamp()) IS NOT FALSE
            AND agreed.definition -> 'types' ->> kind IN ('any', 'initiator');
        EXIT WHEN NOT FOUND;
    END LOOP;
    IF one.handle IS NULL THEN
        RETURN FALSE;
    END IF;
    PERFORM {schema}.permit('receive', ARRAY[one.own_queue]);
    PERFORM {schema}.permit('publish', ARRAY[one.queue_id]);
    -- While its group was waited for it may have been moved, or the other side has ended.
    UPDATE {schema}.endpoints AS own SET send_sequence = own.send_sequence + messages, state = one.becomes
    WHERE own.handle = of_handle AND own.group_id = one.own_group AND own.state = one.state
        AND (own.expires_at > clock_timestamp()) IS NOT FALSE
    RETURNING own.send_sequence - messages INTO base;
    IF NOT FOUND THEN
        RETURN FALSE;
    END IF;
    INSERT INTO {schema}.arrivals (location, count, queue_ids) VALUES (one.service, messages, ARRAY[one.queue_id])
    RETURNING arrival_id INTO arrival;
    rank := {schema}.now_us() - (one.priority - 5) * 10000000;
    told := jsonb_build_object('dialog', jsonb_build_object(
        'handle', one.handle, 'conversation_id', one.conversation_id, 'service', one.service,
        'far_service', one.own_service, 'contract', one.contract, 'is_initiator', NOT one.is_initiator,
        'is_monolog', FALSE
    ));
    INSERT INTO {schema}.spool (arrival_id, position, message_id, type, content_type, context, body, destinations)
    SELECT
        arrival, message.place - 1, message.message_id, kind, message.content_type,
        jsonb_set(told, '{{dialog,sequence}}', to_jsonb(base + message.place - 1)), message.body, 1
    FROM ROWS FROM (unnest(content_types, bodies), {schema}.new_message_ids(messages)) WITH ORDINALITY
        AS message (content_type, body, message_id, place);
    INSERT INTO {schema}.entries (queue_id, group_key, rank, arrival_id, position, priority)
    SELECT one.queue_id, one.group_id::text, rank, arrival, position, one.priority
    FROM generate_series(0, messages - 1) AS position;
    RETURN TRUE;
END
$function$;

-- Send messages in dialogs, all or none; in their order. What can't be delivered yet waits in the transmission queue.
CREATE FUNCTION {schema}.try_send(
    handles uuid[], kinds text[], content_types text[], bodies bytea[],
    OUT refused text, OUT what text, OUT remedy text
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $function$
#variable_conflict use_column
DECLARE
    own record;
    wrong record;
    routed record;
    crowded integer[];
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[]::integer[]);
    PERFORM {schema}.hold_definitions();
    PERFORM {schema}.lock_dialogs(handles);
    PERFORM FROM {schema}.endpoints AS known WHERE known.handle = ANY (handles) ORDER BY known.handle FOR NO KEY UPDATE;
    SELECT
        array_agg(known.queue_id) AS queue_ids, bool_or(known.state = 'SO') AS begins,
        array_agg(known.conversation_id) AS conversations
    INTO own FROM {schema}.endpoints AS known WHERE known.handle = ANY (handles);
    PERFORM {schema}.permit('receive', coalesce(own.queue_ids, ARRAY[]::integer[]));
    SELECT
        CASE WHEN rule.refusal IS NULL THEN 'usage' ELSE 'refused' END AS refused,
        CASE
            WHEN known.handle IS NULL THEN format('there is no dialog with the handle %s', one.handle)
            WHEN rule.refusal IS NOT NULL THEN format('the dialog %s takes no message: %s', one.handle, rule.refusal)
            WHEN known.is_monolog AND NOT known.is_initiator THEN
                'the dialog is a monolog: only the side that began it sends'
            WHEN one.type IN ('EndDialog', 'Error', 'Timer') THEN
                format('a message "%s" is the box''s own, and no application sends it', one.type)
            WHEN sender.who IS NULL THEN
                format('the contract "%s" has no message type "%s"', known.contract, left(one.type, 300))
            WHEN sender.who NOT IN ('any', CASE WHEN known.is_initiator THEN 'initiator' ELSE 'target' END) THEN
                format('only the %s sends "%s" under the contract "%s"', sender.who, one.type, known.contract)
            WHEN one.body IS NULL THEN 'the body of a message can''t be NULL, but it can be empty'
            WHEN octet_length(one.body) > 536870912 THEN 'the body of a message can have 536870912 bytes at most'
        END AS what,
        CASE
            WHEN known.handle IS NULL THEN 'a handle is known until half an hour after its dialog has ended'
            WHEN rule.refusal IS NOT NULL THEN 'begin another one'
            WHEN sender.who IS NULL THEN (
                SELECT 'its types: ' || string_agg(kind, ', ' ORDER BY kind)
                FROM jsonb_object_keys(agreed.definition -> 'types') AS kind
            )
        END AS remedy
    INTO wrong
    FROM unnest(handles, kinds, bodies) WITH ORDINALITY AS one (handle, type, body, place)
    LEFT JOIN {schema}.endpoints AS known USING (handle)
    LEFT JOIN {schema}.contracts AS agreed USING (contract)
    LEFT JOIN {schema}.dialog_rules AS rule
        ON rule.verb = 'send' AND rule.state = {schema}.state_now(known.state, known.expires_at)
    CROSS JOIN LATERAL (SELECT agreed.definition -> 'types' ->> one.type AS who) AS sender
    WHERE known.handle IS NULL OR rule.refusal IS NOT NULL OR known.is_monolog AND NOT known.is_initiator
        OR (sender.who IN ('any', CASE WHEN known.is_initiator THEN 'initiator' ELSE 'target' END)) IS NOT TRUE
        OR one.body IS NULL OR octet_length(one.body) > 536870912
    ORDER BY one.place LIMIT 1;
    IF FOUND THEN
        refused := wrong.refused;
        what := wrong.what;
        remedy := wrong.remedy;
        RETURN;
    END IF;
    IF own.begins THEN
        PERFORM {schema}.add_targets(handles);
    END IF;
    PERFORM FROM {schema}.endpoints AS far
    WHERE far.conversation_id = ANY (own.conversations) AND far.handle <> ALL (handles)
    ORDER BY far.handle FOR KEY SHARE;
    crowded := {schema}.full_among(ARRAY(
        SELECT known.queue_id FROM {schema}.endpoints AS known WHERE known.conversation_id = ANY (own.conversations)
    ));
    WITH given AS (
        SELECT *, row_number() OVER (PARTITION BY handle ORDER BY place) - 1 AS nth
        FROM unnest(handles, kinds, content_types, bodies) WITH ORDINALITY
            AS one (handle, type, content_type, body, place)
    ), counted AS (
        UPDATE {schema}.endpoints AS known SET send_sequence = known.send_sequence + mine.messages, state = rule.becomes
        FROM (SELECT handle, count(*) AS messages FROM given GROUP BY handle) AS mine, {schema}.dialog_rules AS rule
        WHERE known.handle = mine.handle AND rule.verb = 'send' AND rule.state = known.state
        RETURNING known.*, known.send_sequence - mine.messages AS base
    ), addressed AS MATERIALIZED (
        SELECT
            given.place, given.handle, given.type, given.content_type, given.body, counted.base + given.nth AS sequence,
            far.handle AS receiver, far.queue_id, address.to_service, counted.retains,
            CASE
                WHEN far.state IN ('SO', 'SI', 'CO', 'DI') THEN CASE
                    WHEN far.queue_id = ANY (crowded) OR before.waits THEN 'waits' ELSE 'posted' END
                -- Where nothing waits for one who isn't there, he was there, and is forgotten.
                WHEN counted.is_monolog AND (far.handle IS NOT NULL OR counted.base > 0 AND NOT before.waits)
                    THEN 'left out'
                ELSE 'waits' END AS becomes
        FROM given JOIN counted USING (handle)
        CROSS JOIN LATERAL unnest(counted.to_services) AS address (to_service)
        LEFT JOIN {schema}.endpoints AS far
            ON far.conversation_id = counted.conversation_id AND far.is_initiator <> counted.is_initiator
            AND far.service = address.to_service COLLATE "C"
        CROSS JOIN LATERAL (SELECT EXISTS (
            SELECT FROM {schema}.transmission AS one
            WHERE one.to_service = address.to_service COLLATE "C" AND one.handle = given.handle
        ) AS waits) AS before
    ), waiting AS (
        INSERT INTO {schema}.transmission (handle, to_service, sequence, type, content_type, body)
        SELECT handle, to_service, sequence, type, content_type, body
        FROM addressed WHERE becomes = 'waits' ORDER BY place
    ), kept AS (
        INSERT INTO {schema}.dialog_messages (handle, sent, sequence, type, content_type, body)
        SELECT DISTINCT ON (place) handle, TRUE, sequence, type, content_type, body
        FROM addressed WHERE retains ORDER BY place
    )
    SELECT
        array_agg(queue_id) FILTER (WHERE queue_id IS NOT NULL AND becomes <> 'left out') AS queue_ids,
        array_agg(receiver ORDER BY place) FILTER (WHERE becomes = 'posted') AS receivers,
        array_agg(type ORDER BY place) FILTER (WHERE becomes = 'posted') AS kinds,
        array_agg(content_type ORDER BY place) FILTER (WHERE becomes = 'posted') AS content_types,
        array_agg(body ORDER BY place) FILTER (WHERE becomes = 'posted') AS bodies,
        array_agg(sequence ORDER BY place) FILTER (WHERE becomes = 'posted') AS sequences
    INTO routed FROM addressed;
    IF routed.queue_ids IS NOT NULL THEN
        PERFORM {schema}.permit('publish', routed.queue_ids);
    END IF;
    IF routed.receivers IS NOT NULL THEN
        PERFORM {schema}.post(
            routed.receivers, routed.kinds, routed.content_types, routed.bodies, routed.sequences, FALSE
        );
    END IF;
END
$function$;

-- As `try_send`, of messages of one type in one dialog. `content_types` is NULL where none has any.
CREATE FUNCTION {schema}.try_send_run(
    handle uuid, kind text, content_types text[], bodies bytea[], OUT refused text, OUT what text, OUT remedy text
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $function$
DECLARE
    messages integer := coalesce(cardinality(bodies), 0);
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[]::integer[]);
    PERFORM {schema}.hold_definitions();
    IF messages = 0 OR array_position(bodies, NULL) > 0 OR pg_column_size(bodies) > 536870912
        OR NOT {schema}.send_straight(handle, kind, content_types, bodies) THEN
        SELECT one.* INTO refused, what, remedy FROM {schema}.try_send(
            array_fill(handle, ARRAY[messages]), array_fill(kind, ARRAY[messages]),
            coalesce(content_types, array_fill(NULL::text, ARRAY[messages])), bodies
        ) AS one;
    END IF;
END
$function$;

-- Send a message in a dialog, within the caller's transaction: for triggers, procedures and other languages.
CREATE FUNCTION {schema}.send(handle uuid, type text, body bytea DEFAULT '', content_type text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    done record;
BEGIN
    done := {schema}.try_send_run(handle, type, ARRAY[content_type], ARRAY[body]);
    PERFORM {schema}.refuse(done.refused, done.what, done.remedy);
END
$function$;

-- End a side of a dialog: `verb` is end, end with error, or clean up. What waits for it goes, but for messages that its
-- turn has in hand.
CREATE FUNCTION {schema}.try_end(
    of_handle uuid, what_verb text, code integer, why text, in_hand text[],
    OUT refused text, OUT what text, OUT remedy text
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $function$
DECLARE
    own record;
    far record;
    rule record;
    waits boolean;
    told boolean := FALSE;
    becomes text;
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[]::integer[]);
    PERFORM {schema}.hold_definitions();
    PERFORM {schema}.lock_dialogs(ARRAY[of_handle]);
    SELECT known.* INTO own FROM {schema}.endpoints AS known WHERE known.handle = of_handle;
    IF NOT FOUND THEN
        refused := 'usage';
        what := format('there is no dialog with the handle %s', of_handle);
        remedy := 'a handle is known until half an hour after its dialog has ended';
        RETURN;
    END IF;
    PERFORM {schema}.permit('receive', ARRAY[own.queue_id]);
    IF what_verb = 'end with error' AND (coalesce(code, 0) < 1 OR coalesce(length(why), 0) NOT BETWEEN 1 AND 3000) THEN
        refused := 'usage';
        what := 'an error has a code above 0 and a text of 1 to 3000 characters';
        RETURN;
    END IF;
    PERFORM FROM {schema}.endpoints AS known
    WHERE known.conversation_id = own.conversation_id
        AND (known.handle = of_handle OR NOT known.is_monolog OR own.is_initiator)
    ORDER BY known.handle FOR UPDATE;
    SELECT known.* INTO own FROM {schema}.endpoints AS known WHERE known.handle = of_handle;
    SELECT one.* INTO rule FROM {schema}.dialog_rules AS one
    WHERE one.verb = what_verb AND one.state = {schema}.state_now(own.state, own.expires_at);
    becomes := rule.becomes;
    IF what_verb <> 'end' THEN
        DELETE FROM {schema}.transmission AS one WHERE one.handle = of_handle;
    END IF;
    -- Nobody is there any more whom it could reach; who takes the first message may still come.
    DELETE FROM {schema}.transmission AS one
    WHERE one.handle = of_handle AND NOT EXISTS (
        SELECT FROM {schema}.endpoints AS other
        WHERE other.conversation_id = own.conversation_id AND other.is_initiator <> own.is_initiator
            AND other.service = one.to_service AND other.state NOT IN ('DO', 'ER', 'CD')
    ) AND NOT (own.is_initiator AND {schema}.first_waits(of_handle, one.to_service));
    waits := EXISTS (SELECT FROM {schema}.transmission AS one WHERE one.handle = of_handle);
    IF what_verb <> 'clean up' AND (NOT own.is_monolog OR own.is_initiator) AND rule.becomes <> rule.state THEN
        FOR far IN
            SELECT known.handle, known.state, known.service FROM {schema}.endpoints AS known
            WHERE known.conversation_id = own.conversation_id AND known.is_initiator <> own.is_initiator
            ORDER BY known.handle
        LOOP
            -- Where something is on its way the end comes behind it.
            CONTINUE WHEN waits AND EXISTS (
                SELECT FROM {schema}.transmission AS one
                WHERE one.to_service = far.service AND one.handle = of_handle
            );
            PERFORM {schema}.happen(
                far.handle, CASE what_verb WHEN 'end' THEN 'end comes' ELSE 'error comes' END, own.send_sequence, code,
                why
            );
            told := told OR far.state IN ('SI', 'CO');
        END LOOP;
        IF waits AND rule.tells = 'EndDialog' THEN
            INSERT INTO {schema}.transmission (handle, to_service, sequence, type, body)
            SELECT of_handle, one.to_service, own.send_sequence, rule.tells, ''
            FROM (SELECT DISTINCT known.to_service FROM {schema}.transmission AS known
                WHERE known.handle = of_handle) AS one;
        END IF;
    END IF;
    IF rule.tells = 'EndDialog' THEN
        UPDATE {schema}.endpoints AS known SET send_sequence = known.send_sequence + 1 WHERE known.handle = of_handle;
    END IF;
    -- Nobody is there who would have to end, too; and who listens to a monolog isn't waited for.
    IF becomes = 'DO' AND NOT waits AND (NOT told OR own.is_monolog) THEN
        becomes := CASE rule.state WHEN 'DO' THEN 'DO' ELSE 'CD' END;
    END IF;
    IF becomes <> own.state THEN
        PERFORM {schema}.become(of_handle, becomes);
    END IF;
    IF becomes IN ('DO', 'CD') THEN
        PERFORM {schema}.drop_unread(of_handle, in_hand, NULL);
        -- What is on its way to it, because its queue is full, goes as well.
        DELETE FROM {schema}.transmission AS one USING {schema}.endpoints AS other
        WHERE other.conversation_id = own.conversation_id AND other.is_initiator <> own.is_initiator
            AND one.handle = other.handle AND one.to_service = own.service;
    END IF;
END
$function$;

-- End a dialog, within the caller's transaction: for triggers, procedures and other languages.
CREATE FUNCTION {schema}.end_dialog(
    handle uuid, error_code integer DEFAULT NULL, error_text text DEFAULT NULL, cleanup boolean DEFAULT FALSE
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    done record;
BEGIN
    done := {schema}.try_end(
        handle, CASE WHEN cleanup THEN 'clean up' WHEN error_code IS NOT NULL THEN 'end with error' ELSE 'end' END,
        error_code, error_text, ARRAY[]::text[]
    );
    PERFORM {schema}.refuse(done.refused, done.what, done.remedy);
END
$function$;

-- What waits for a side that has ended while its turn had it in hand, and that was put back.
CREATE FUNCTION {schema}.drop_ended(handles uuid[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    one record;
BEGIN
    PERFORM {schema}.permit('receive', ARRAY(
        SELECT known.queue_id FROM {schema}.endpoints AS known WHERE known.handle = ANY (handles)
    ));
    FOR one IN
        SELECT known.handle FROM {schema}.endpoints AS known
        WHERE known.handle = ANY (handles) AND known.state IN ('DO', 'CD')
    LOOP
        PERFORM {schema}.drop_unread(one.handle, ARRAY[]::text[], NULL);
    END LOOP;
END
$function$;

-- Set, or with NULL take away, the timer of a side.
CREATE FUNCTION {schema}.try_set_timer(
    of_handle uuid, delay interval, OUT refused text, OUT what text, OUT remedy text
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    own record;
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[]::integer[]);
    PERFORM {schema}.lock_dialogs(ARRAY[of_handle]);
    SELECT known.queue_id, rule.refusal INTO own FROM {schema}.endpoints AS known
    JOIN {schema}.dialog_rules AS rule
        ON rule.verb = 'set timer' AND rule.state = {schema}.state_now(known.state, known.expires_at)
    WHERE known.handle = of_handle FOR NO KEY UPDATE OF known;
    IF NOT FOUND THEN
        refused := 'usage';
        what := format('there is no dialog with the handle %s', of_handle);
        RETURN;
    END IF;
    PERFORM {schema}.permit('receive', ARRAY[own.queue_id]);
    IF own.refusal IS NOT NULL THEN
        refused := 'refused';
        what := format('the dialog %s takes no timer: %s', of_handle, own.refusal);
        RETURN;
    END IF;
    UPDATE {schema}.endpoints AS known SET timer_at = clock_timestamp() + delay WHERE known.handle = of_handle;
END
$function$;

CREATE FUNCTION {schema}.set_dialog_timer(handle uuid, delay interval) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    done record;
BEGIN
    done := {schema}.try_set_timer(handle, delay);
    PERFORM {schema}.refuse(done.refused, done.what, done.remedy);
END
$function$;

-- Move a side into another conversation group, with what waits for it: there it is judged anew, by arrival.
CREATE FUNCTION {schema}.try_move(
    of_handle uuid, to_group uuid, in_hand text[], OUT refused text, OUT what text, OUT remedy text
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    own record;
    moved bigint;
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[]::integer[]);
    SELECT known.queue_id, known.group_id INTO own FROM {schema}.endpoints AS known WHERE known.handle = of_handle;
    IF own.group_id > to_group THEN
        PERFORM pg_advisory_xact_lock({schema}.group_lock(own.queue_id, to_group::text));
    END IF;
    PERFORM {schema}.lock_dialogs(ARRAY[of_handle]);
    PERFORM pg_advisory_xact_lock({schema}.group_lock(own.queue_id, to_group::text));
    -- Whoever sends to it reads where it is, and holds its row meanwhile.
    PERFORM FROM {schema}.endpoints AS known WHERE known.handle = of_handle FOR UPDATE;
    SELECT known.*, rule.refusal INTO own FROM {schema}.endpoints AS known
    JOIN {schema}.dialog_rules AS rule
        ON rule.verb = 'move' AND rule.state = {schema}.state_now(known.state, known.expires_at)
    WHERE known.handle = of_handle;
    IF NOT FOUND THEN
        refused := 'usage';
        what := format('there is no dialog with the handle %s', of_handle);
        RETURN;
    END IF;
    PERFORM {schema}.permit('receive', ARRAY[own.queue_id]);
    IF own.refusal IS NOT NULL THEN
        refused := 'refused';
        what := format('the dialog %s can''t be moved: %s', of_handle, own.refusal);
        RETURN;
    END IF;
    UPDATE {schema}.endpoints AS known SET group_id = to_group WHERE known.handle = of_handle;
    UPDATE {schema}.entries AS entry SET
        group_key = to_group::text, status = 'arrived', ordinal = NULL, arrival = NULL, late = FALSE, waits = FALSE
    FROM {schema}.spool AS stored
    WHERE entry.queue_id = own.queue_id AND entry.group_key = own.group_id::text
        AND stored.arrival_id = ANY (ARRAY[entry.arrival_id]) AND stored.position = ANY (ARRAY[entry.position])
        AND stored.context -> 'dialog' ->> 'handle' = of_handle::text AND stored.message_id <> ALL (in_hand);
    GET DIAGNOSTICS moved = ROW_COUNT;
    IF moved > 0 THEN
        INSERT INTO {schema}.requests (queue_id, group_key, action, rank)
        VALUES (own.queue_id, own.group_id::text, 'look', {schema}.now_us());
    END IF;
END
$function$;

CREATE FUNCTION {schema}.move_dialog(handle uuid, to_group uuid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    done record;
BEGIN
    done := {schema}.try_move(handle, to_group, ARRAY[]::text[]);
    PERFORM {schema}.refuse(done.refused, done.what, done.remedy);
END
$function$;

-- The first message of these dialogs has been received.
CREATE FUNCTION {schema}.converse(handles uuid[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY(
        SELECT known.queue_id FROM {schema}.endpoints AS known WHERE known.handle = ANY (handles)
    ));
    UPDATE {schema}.endpoints AS known SET state = rule.becomes FROM {schema}.dialog_rules AS rule
    WHERE known.handle = ANY (handles) AND rule.verb = 'receive' AND rule.state = known.state
        AND rule.becomes <> known.state;
END
$function$;

-- Messages aren't what their types say, one of each of some dialogs: they are set aside, with what is behind them there,
-- and the dialogs fail on both sides. The caller has the locks of their groups, and has put back what was handed out of
-- them. Answers with the entries that are set aside.
CREATE FUNCTION {schema}.fail_dialogs(handles uuid[], message_ids text[], sequences bigint[], whys text[]) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    own record;
    far record;
    gone bigint[];
    set_aside bigint[] := '{{}}';
BEGIN
    PERFORM {schema}.permit('receive', ARRAY(
        SELECT DISTINCT known.queue_id FROM {schema}.endpoints AS known WHERE known.handle = ANY (handles)
    ));
    FOR own IN
        SELECT known.*, one.message_id AS its_message, one.sequence AS its_sequence, one.why
        FROM unnest(handles, message_ids, sequences, whys) AS one (handle, message_id, sequence, why)
        JOIN {schema}.endpoints AS known USING (handle)
        ORDER BY known.handle
    LOOP
        PERFORM FROM {schema}.endpoints AS known
        WHERE known.conversation_id = own.conversation_id AND (known.handle = own.handle OR NOT known.is_monolog)
        ORDER BY known.handle FOR UPDATE;
        gone := {schema}.drop_unread(own.handle, ARRAY[]::text[], own.why, own.its_sequence);
        UPDATE {schema}.aside AS one SET disposition = 'invalid' FROM {schema}.spool AS stored
        WHERE one.entry_id = ANY (gone) AND stored.arrival_id = ANY (ARRAY[one.arrival_id])
            AND stored.position = ANY (ARRAY[one.position]) AND stored.message_id = own.its_message;
        set_aside := set_aside || gone;
        PERFORM {schema}.happen(own.handle, 'invalid comes', NULL, -2, own.why);
        CONTINUE WHEN own.is_monolog;
        DELETE FROM {schema}.transmission AS one USING {schema}.endpoints AS known
        WHERE one.handle = known.handle AND known.conversation_id = own.conversation_id;
        FOR far IN
            SELECT known.handle FROM {schema}.endpoints AS known
            WHERE known.conversation_id = own.conversation_id AND known.is_initiator <> own.is_initiator
        LOOP
            PERFORM {schema}.happen(far.handle, 'error comes', NULL, -2, own.why);
        END LOOP;
    END LOOP;
    RETURN set_aside;
END
$function$;

-- The group of a side, and its queue.
CREATE FUNCTION {schema}.group_of(of_handle uuid, OUT queue text, OUT group_key text)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY(
        SELECT known.queue_id FROM {schema}.endpoints AS known WHERE known.handle = of_handle
    ));
    SELECT place.queue, known.group_id::text INTO queue, group_key
    FROM {schema}.endpoints AS known JOIN {schema}.queues AS place USING (queue_id) WHERE known.handle = of_handle;
END
$function$;

-- What is kept of a dialog: both directions where its service keeps them, and what was set aside unread.
CREATE FUNCTION {schema}.history_of(of_handle uuid)
RETURNS TABLE (sent boolean, sequence bigint, type text, content_type text, body bytea, at timestamptz, reason text)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
#variable_conflict use_column
DECLARE
    own record;
BEGIN
    SELECT known.queue_id, known.retains INTO own FROM {schema}.endpoints AS known WHERE known.handle = of_handle;
    PERFORM {schema}.permit('receive', ARRAY_REMOVE(ARRAY[own.queue_id], NULL));
    RETURN QUERY
    WITH left_over AS MATERIALIZED (
        SELECT stored.*, known.reason
        FROM {schema}.aside AS known JOIN {schema}.spool AS stored USING (arrival_id, position)
        -- Whatever group it was in: the dialog may have been moved since.
        WHERE known.queue_id = own.queue_id AND stored.context -> 'dialog' ->> 'handle' = of_handle::text
    )
    SELECT one.sent, one.sequence, one.type, one.content_type, one.body, one.at, one.reason FROM (
        SELECT known.sent, known.sequence, known.type, known.content_type, known.body, known.at, left_over.reason
        FROM {schema}.dialog_messages AS known LEFT JOIN left_over USING (message_id) WHERE known.handle = of_handle
        UNION ALL
        SELECT
            FALSE, (left_over.context -> 'dialog' ->> 'sequence')::bigint, left_over.type, left_over.content_type,
            left_over.body, left_over.received_at, left_over.reason
        FROM left_over WHERE NOT own.retains
    ) AS one ORDER BY one.at, one.sequence;
END
$function$;

-- The sides of dialogs as they stand, read without locks. `receive_sequence`: the number that comes next; `unread`: what
-- waits in the queue; `waiting`: what waits to be delivered, and `transmission_status` why.
CREATE VIEW {schema}.dialogs AS
SELECT
    known.handle,
    known.conversation_id,
    CASE WHEN known.expires_at <= clock_timestamp() AND known.state IN ('SO', 'SI', 'CO', 'DI') THEN 'ER'
        ELSE known.state END AS state,
    known.service,
    known.to_services,
    known.contract,
    place.queue,
    known.group_id,
    known.is_initiator,
    known.is_monolog,
    known.priority,
    known.encryption,
    known.retains AS retention,
    known.send_sequence,
    CASE WHEN known.is_monolog AND known.is_initiator THEN 0 ELSE coalesce((
        SELECT far.send_sequence FROM {schema}.endpoints AS far
        WHERE far.conversation_id = known.conversation_id AND far.is_initiator <> known.is_initiator
    ), 0) END AS receive_sequence,
    (
        SELECT count(*) FROM {schema}.entries AS entry JOIN {schema}.spool AS stored USING (arrival_id, position)
        WHERE entry.queue_id = known.queue_id AND entry.group_key = known.group_id::text
            AND stored.context -> 'dialog' ->> 'handle' = known.handle::text
    ) AS unread,
    coalesce(undelivered.waiting, 0) AS waiting,
    undelivered.status AS transmission_status,
    known.began_at,
    known.closed_at,
    known.expires_at,
    known.timer_at,
    known.error_code,
    known.error
FROM {schema}.endpoints AS known
JOIN {schema}.queues AS place USING (queue_id)
LEFT JOIN LATERAL (
    SELECT count(*) AS waiting, string_agg(DISTINCT CASE
        WHEN service.service IS NULL THEN format('there is no service "%s"', one.to_service)
        WHEN NOT service.definition -> 'contracts' ? known.contract AND known.is_initiator THEN
            format('the service "%s" doesn''t accept the contract "%s"', one.to_service, known.contract)
        WHEN EXISTS (
            SELECT FROM {schema}.endpoints AS far
            WHERE far.conversation_id = known.conversation_id AND far.is_initiator <> known.is_initiator
                AND far.service = one.to_service AND far.state IN ('SI', 'CO')
        ) THEN format('the queue of the service "%s" is full', one.to_service)
        WHEN EXISTS (
            SELECT FROM {schema}.endpoints AS far
            WHERE far.conversation_id = known.conversation_id AND far.is_initiator <> known.is_initiator
                AND far.service = one.to_service AND far.state = 'DO'
        ) THEN format('the service "%s" has ended the dialog', one.to_service)
        ELSE format('the dialog was cleaned up at the service "%s"', one.to_service)
    END, '; ') AS status
    FROM {schema}.transmission AS one LEFT JOIN {schema}.services AS service ON service.service = one.to_service
    WHERE one.handle = known.handle
) AS undelivered ON undelivered.waiting > 0;
