-- Dialogs: contracts, services, the sides of dialogs, the transmission queue, and the functions that are their verbs.

-- Of a dialog: an entry that goes before what is queued in its group.
ALTER TABLE {schema}.entries ADD COLUMN ahead boolean NOT NULL DEFAULT FALSE;

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

-- The messages of dialogs whose service keeps them, until it ends.
CREATE TABLE {schema}.dialog_messages (
    history_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    handle uuid NOT NULL REFERENCES {schema}.endpoints ON DELETE CASCADE,
    sent boolean NOT NULL,
    sequence bigint,
    type text COLLATE "C" NOT NULL,
    content_type text,
    body bytea NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp()
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
        SELECT given.*, arrived.arrival_id,
            row_number() OVER (PARTITION BY given.service ORDER BY given.place) - 1 AS position
        FROM given JOIN arrived ON arrived.location = given.service
    ), spooled AS (
        INSERT INTO {schema}.spool (arrival_id, position, message_id, type, content_type, context, body, destinations)
        SELECT
            placed.arrival_id, placed.position, {schema}.new_message_id(), placed.type, placed.content_type,
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
    INSERT INTO {schema}.dialog_messages (handle, sent, sequence, type, content_type, body)
    SELECT placed.handle, FALSE, placed.sequence, placed.type, placed.content_type, placed.body
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
-- aside, else it goes. The caller has the lock of its group.
CREATE FUNCTION {schema}.drop_unread(of_handle uuid, in_hand text[], why text, from_sequence bigint DEFAULT NULL)
RETURNS void
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $function$
DECLARE
    own record;
    gone bigint;
BEGIN
    SELECT known.queue_id, known.group_id INTO own FROM {schema}.endpoints AS known WHERE known.handle = of_handle;
    WITH unread AS (
        DELETE FROM {schema}.entries AS entry USING {schema}.spool AS stored
        WHERE entry.queue_id = own.queue_id AND entry.group_key = own.group_id::text
            AND stored.arrival_id = entry.arrival_id AND stored.position = entry.position
            AND stored.context -> 'dialog' ->> 'handle' = of_handle::text AND stored.message_id <> ALL (in_hand)
            AND (from_sequence IS NULL OR (stored.context -> 'dialog' ->> 'sequence')::bigint >= from_sequence)
        RETURNING entry.*
    ), kept AS (
        INSERT INTO {schema}.aside (
            entry_id, queue_id, group_key, disposition, reason, arrival_id, position, sequence, size, priority,
            subscription_ids, ordinal, attempt
        )
        SELECT
            entry_id, queue_id, group_key, 'dead', why, arrival_id, position, sequence, size, priority,
            subscription_ids, ordinal, attempt
        FROM unread WHERE why IS NOT NULL
    ), removed AS (
        DELETE FROM {schema}.spool AS stored USING unread
        WHERE why IS NULL AND stored.arrival_id = unread.arrival_id AND stored.position = unread.position
    )
    SELECT count(*) INTO gone FROM unread;
    IF gone > 0 THEN
        INSERT INTO {schema}.requests (queue_id, group_key, action, rank)
        VALUES (own.queue_id, own.group_id::text, 'look', {schema}.now_us());
    END IF;
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

-- Make the other sides of dialogs that haven't any, as far as there are services that take them.
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
    IF cardinality(array_remove(to_services, NULL)) = 0 OR EXISTS (
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
            far.handle AS receiver, address.to_service, counted.retains,
            CASE WHEN far.state IN ('SO', 'SI', 'CO', 'DI') THEN 'posted'
                WHEN counted.is_monolog AND far.handle IS NOT NULL THEN 'left out' ELSE 'waits' END AS becomes
        FROM given JOIN counted USING (handle)
        CROSS JOIN LATERAL unnest(counted.to_services) AS address (to_service)
        LEFT JOIN {schema}.endpoints AS far
            ON far.conversation_id = counted.conversation_id AND far.is_initiator <> counted.is_initiator
            AND far.service = address.to_service COLLATE "C"
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
        array_agg(receiver ORDER BY place) AS receivers, array_agg(type ORDER BY place) AS kinds,
        array_agg(content_type ORDER BY place) AS content_types, array_agg(body ORDER BY place) AS bodies,
        array_agg(sequence ORDER BY place) AS sequences
    INTO routed FROM addressed WHERE becomes = 'posted';
    IF routed.receivers IS NOT NULL THEN
        PERFORM {schema}.permit('publish', ARRAY(
            SELECT known.queue_id FROM {schema}.endpoints AS known WHERE known.handle = ANY (routed.receivers)
        ));
        PERFORM {schema}.post(
            routed.receivers, routed.kinds, routed.content_types, routed.bodies, routed.sequences, FALSE
        );
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
    done := {schema}.try_send(ARRAY[handle], ARRAY[type], ARRAY[content_type], ARRAY[body]);
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
    -- Nobody is there any more whom it could reach.
    DELETE FROM {schema}.transmission AS one USING {schema}.endpoints AS other
    WHERE one.handle = of_handle AND other.conversation_id = own.conversation_id
        AND other.is_initiator <> own.is_initiator AND other.service = one.to_service AND other.state IN ('ER', 'CD');
    waits := EXISTS (SELECT FROM {schema}.transmission AS one WHERE one.handle = of_handle);
    IF what_verb <> 'clean up' AND (NOT own.is_monolog OR own.is_initiator) AND rule.becomes <> rule.state THEN
        FOR far IN
            SELECT known.handle, known.state, known.service FROM {schema}.endpoints AS known
            WHERE known.conversation_id = own.conversation_id AND known.is_initiator <> own.is_initiator
            ORDER BY known.handle
        LOOP
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
        AND stored.arrival_id = entry.arrival_id AND stored.position = entry.position
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

-- A message isn't what its type says: it is set aside, with what is behind it in its dialog, which fails on both sides.
-- The caller has the lock of its group, and has put back what was handed out of it.
CREATE FUNCTION {schema}.fail_dialog(of_handle uuid, of_message text, its_sequence bigint, why text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    own record;
    far record;
BEGIN
    PERFORM {schema}.permit('receive', ARRAY(
        SELECT known.queue_id FROM {schema}.endpoints AS known WHERE known.handle = of_handle
    ));
    SELECT known.* INTO own FROM {schema}.endpoints AS known WHERE known.handle = of_handle;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    PERFORM FROM {schema}.endpoints AS known
    WHERE known.conversation_id = own.conversation_id AND (known.handle = of_handle OR NOT known.is_monolog)
    ORDER BY known.handle FOR UPDATE;
    PERFORM {schema}.drop_unread(of_handle, ARRAY[]::text[], why, its_sequence);
    UPDATE {schema}.aside AS one SET disposition = 'invalid' FROM {schema}.spool AS stored
    WHERE one.queue_id = own.queue_id AND one.group_key = own.group_id::text
        AND stored.arrival_id = one.arrival_id AND stored.position = one.position AND stored.message_id = of_message;
    PERFORM {schema}.happen(of_handle, 'invalid comes', NULL, -2, why);
    IF NOT own.is_monolog THEN
        DELETE FROM {schema}.transmission AS one USING {schema}.endpoints AS known
        WHERE one.handle = known.handle AND known.conversation_id = own.conversation_id;
        FOR far IN
            SELECT known.handle FROM {schema}.endpoints AS known
            WHERE known.conversation_id = own.conversation_id AND known.is_initiator <> own.is_initiator
        LOOP
            PERFORM {schema}.happen(far.handle, 'error comes', NULL, -2, why);
        END LOOP;
    END IF;
END
$function$;

-- Is a timer due, or a lifetime over?
CREATE FUNCTION {schema}.is_due() RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan
AS $function$
BEGIN
    PERFORM {schema}.permit_anything();
    RETURN EXISTS (SELECT FROM {schema}.endpoints AS known WHERE known.due_at <= clock_timestamp());
END
$function$;

-- Fire the timers that are due, and end what has outlived its lifetime; what somebody has in his hands is passed over.
-- Answers with how many dialogs something was done to.
CREATE FUNCTION {schema}.fire_dialogs(at_most integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    one record;
    side record;
    sides uuid[];
    free boolean;
    done integer := 0;
BEGIN
    PERFORM {schema}.permit_anything();
    FOR one IN
        SELECT known.handle, known.conversation_id, known.state, known.timer_at, known.expires_at
        FROM {schema}.endpoints AS known
        WHERE known.due_at <= clock_timestamp() ORDER BY known.due_at LIMIT at_most FOR NO KEY UPDATE SKIP LOCKED
    LOOP
        -- The other side of it may have been the first.
        CONTINUE WHEN NOT EXISTS (
            SELECT FROM {schema}.endpoints AS known
            WHERE known.handle = one.handle AND known.due_at <= clock_timestamp()
        );
        IF one.expires_at <= clock_timestamp() THEN
            sides := ARRAY(
                SELECT known.handle FROM {schema}.endpoints AS known
                WHERE known.conversation_id = one.conversation_id ORDER BY known.handle FOR UPDATE SKIP LOCKED
            );
            SELECT bool_and(
                known.handle = ANY (sides)
                AND pg_try_advisory_xact_lock({schema}.group_lock(known.queue_id, known.group_id::text))
            ) INTO free
            FROM {schema}.endpoints AS known WHERE known.conversation_id = one.conversation_id;
            CONTINUE WHEN NOT free;
            DELETE FROM {schema}.transmission AS waiting WHERE waiting.handle = ANY (sides);
            FOR side IN
                SELECT known.handle FROM {schema}.endpoints AS known WHERE known.handle = ANY (sides)
            LOOP
                PERFORM {schema}.drop_unread(side.handle, ARRAY[]::text[], 'the lifetime of its dialog has ended');
                PERFORM {schema}.happen(
                    side.handle, 'lifetime ends', NULL, -1, 'the lifetime of the dialog has ended'
                );
            END LOOP;
            done := done + 1;
        ELSE
            UPDATE {schema}.endpoints AS known SET timer_at = NULL WHERE known.handle = one.handle;
            PERFORM {schema}.happen(one.handle, 'timer fires');
            done := done + 1;
        END IF;
    END LOOP;
    RETURN done;
END
$function$;

-- Put what goes ahead, of the groups of a turn, before what is queued there: it gets the first ordinals that haven't
-- left yet, and the others move up. The caller has locked the groups. `fresh`: the state of a group that is new.
CREATE FUNCTION {schema}.place_ahead(of_queue integer, of_groups text[], fresh bigint[]) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $function$
#variable_conflict use_column
DECLARE
    one record;
    lowest bigint;
    counted record;
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    FOR one IN
        SELECT entry.group_key, array_agg(entry.entry_id ORDER BY run.stamp, entry.position) AS ids, count(*) AS messages
        FROM {schema}.entries AS entry JOIN {schema}.tickets AS run USING (arrival_id)
        WHERE entry.queue_id = of_queue AND entry.group_key = ANY (of_groups) AND entry.status = 'arrived'
            AND entry.ahead
        GROUP BY entry.group_key
    LOOP
        -- Where a group is closed a message is late, as any other.
        CONTINUE WHEN EXISTS (
            SELECT FROM {schema}.groups AS known
            WHERE known.queue_id = of_queue AND known.group_key = one.group_key AND known.flags & 2 <> 0
        );
        INSERT INTO {schema}.groups (
            queue_id, group_key, flags, first, next, mark, last, ordinal, since, reports, clock, skipped, arrivals
        ) VALUES (
            of_queue, one.group_key, fresh[1], fresh[2], fresh[3], fresh[4], fresh[5], fresh[6], fresh[7], fresh[8],
            fresh[9], '{{}}', 0
        ) ON CONFLICT DO NOTHING;
        UPDATE {schema}.groups AS known SET
            ordinal = known.ordinal + one.messages, arrivals = known.arrivals + one.messages,
            decided[1] = known.decided[1] + one.messages
        WHERE known.queue_id = of_queue AND known.group_key = one.group_key
        RETURNING known.ordinal, known.arrivals INTO counted;
        UPDATE {schema}.entries AS entry SET ordinal = entry.ordinal + one.messages
        WHERE entry.queue_id = of_queue AND entry.group_key = one.group_key AND entry.status = 'queued';
        SELECT min(entry.ordinal) INTO lowest FROM {schema}.entries AS entry
        WHERE entry.queue_id = of_queue AND entry.group_key = one.group_key AND entry.status = 'queued';
        UPDATE {schema}.entries AS entry SET
            status = 'queued', ahead = FALSE, arrival = counted.arrivals - one.messages + placed.nth,
            ordinal = coalesce(lowest, counted.ordinal + 1) - one.messages - 1 + placed.nth
        FROM unnest(one.ids) WITH ORDINALITY AS placed (entry_id, nth)
        WHERE entry.entry_id = placed.entry_id;
    END LOOP;
    RETURN of_queue;
END
$function$;

-- Bring what is queued for a side before what is queued for others of its group. Answers with how much that is. The
-- caller has the lock of the group, and all of it is judged.
CREATE FUNCTION {schema}.put_first(of_handle uuid) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    own record;
    found bigint;
BEGIN
    SELECT known.queue_id, known.group_id INTO own FROM {schema}.endpoints AS known WHERE known.handle = of_handle;
    PERFORM {schema}.permit('receive', ARRAY[coalesce(own.queue_id, 0)]);
    WITH line AS (
        SELECT entry.entry_id, entry.ordinal, stored.context -> 'dialog' ->> 'handle' = of_handle::text AS mine
        FROM {schema}.entries AS entry JOIN {schema}.spool AS stored USING (arrival_id, position)
        WHERE entry.queue_id = own.queue_id AND entry.group_key = own.group_id::text AND entry.status = 'queued'
    ), ordered AS (
        SELECT
            line.entry_id, line.ordinal, line.mine, first.ordinal AS becomes
        FROM (
            SELECT entry_id, ordinal, mine IS TRUE AS mine,
                row_number() OVER (ORDER BY (mine IS TRUE) DESC, ordinal) AS place FROM line
        ) AS line
        JOIN (SELECT ordinal, row_number() OVER (ORDER BY ordinal) AS place FROM line) AS first USING (place)
    ), moved AS (
        UPDATE {schema}.entries AS entry SET ordinal = ordered.becomes FROM ordered
        WHERE entry.entry_id = ordered.entry_id AND ordered.becomes <> ordered.ordinal
    )
    SELECT count(*) FILTER (WHERE ordered.mine) INTO found FROM ordered;
    RETURN found;
END
$function$;

-- Deliver what waits in the transmission queue for services that are there now. Nobody sends meanwhile.
CREATE FUNCTION {schema}.transmit() RETURNS bigint
LANGUAGE plpgsql
AS $function$
DECLARE
    one record;
    other record;
    gathered record;
    delivered bigint := 0;
BEGIN
    FOR one IN
        SELECT waiting.handle, waiting.to_service, own.conversation_id, own.is_initiator, own.is_monolog
        FROM (SELECT DISTINCT handle, to_service FROM {schema}.transmission) AS waiting
        JOIN {schema}.endpoints AS own USING (handle)
        JOIN {schema}.services AS place ON place.service = waiting.to_service
        WHERE place.definition -> 'contracts' ? own.contract OR NOT own.is_initiator
        ORDER BY waiting.handle
    LOOP
        PERFORM FROM {schema}.endpoints AS own WHERE own.handle = one.handle FOR NO KEY UPDATE;
        PERFORM {schema}.add_targets(ARRAY[one.handle]);
        SELECT far.handle, far.state INTO other FROM {schema}.endpoints AS far
        WHERE far.conversation_id = one.conversation_id AND far.is_initiator <> one.is_initiator
            AND far.service = one.to_service FOR NO KEY UPDATE;
        CONTINUE WHEN NOT FOUND OR other.state NOT IN ('SI', 'CO');
        WITH sent AS (
            DELETE FROM {schema}.transmission AS waiting
            WHERE waiting.handle = one.handle AND waiting.to_service = one.to_service
            RETURNING waiting.*
        )
        SELECT
            array_agg(other.handle) AS receivers, array_agg(type ORDER BY transmission_id) AS kinds,
            array_agg(content_type ORDER BY transmission_id) AS content_types,
            array_agg(body ORDER BY transmission_id) AS bodies, array_agg(sequence ORDER BY transmission_id) AS sequences
        INTO gathered FROM sent;
        PERFORM {schema}.post(
            gathered.receivers, gathered.kinds, gathered.content_types, gathered.bodies, gathered.sequences, FALSE
        );
        delivered := delivered + cardinality(gathered.receivers);
        IF 'EndDialog' = ANY (gathered.kinds) THEN
            PERFORM {schema}.become(gathered.receivers[1], 'DI');
            IF one.is_monolog AND NOT EXISTS (
                SELECT FROM {schema}.transmission AS waiting WHERE waiting.handle = one.handle
            ) THEN
                PERFORM {schema}.become(one.handle, 'CD');
            END IF;
        END IF;
    END LOOP;
    RETURN delivered;
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
    SELECT known.queue_id, known.group_id, known.retains INTO own
    FROM {schema}.endpoints AS known WHERE known.handle = of_handle;
    PERFORM {schema}.permit('receive', ARRAY_REMOVE(ARRAY[own.queue_id], NULL));
    RETURN QUERY
    SELECT one.sent, one.sequence, one.type, one.content_type, one.body, one.at, one.reason FROM (
        SELECT known.sent, known.sequence, known.type, known.content_type, known.body, known.at, NULL AS reason
        FROM {schema}.dialog_messages AS known WHERE known.handle = of_handle
        UNION ALL
        SELECT
            FALSE, (stored.context -> 'dialog' ->> 'sequence')::bigint, stored.type, stored.content_type, stored.body,
            stored.received_at, left_over.reason
        FROM {schema}.aside AS left_over JOIN {schema}.spool AS stored USING (arrival_id, position)
        WHERE left_over.queue_id = own.queue_id AND left_over.group_key = own.group_id::text
            AND stored.context -> 'dialog' ->> 'handle' = of_handle::text AND NOT own.retains
    ) AS one ORDER BY one.at, one.sequence;
END
$function$;

-- Forget sides that have been closed for so long, and what is remembered of conversation groups that have none any more.
-- Answers with how many sides.
CREATE FUNCTION {schema}.forget_closed(older_than interval) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    forgotten bigint;
BEGIN
    PERFORM {schema}.permit('route', ARRAY[]::integer[]);
    WITH gone AS (
        DELETE FROM {schema}.endpoints WHERE closed_at <= clock_timestamp() - older_than
        RETURNING handle, queue_id, group_id
    ), emptied AS (
        DELETE FROM {schema}.groups AS known USING (SELECT DISTINCT queue_id, group_id FROM gone) AS one
        WHERE known.queue_id = one.queue_id AND known.group_key = one.group_id::text
            AND NOT EXISTS (
                SELECT FROM {schema}.endpoints AS other
                WHERE other.queue_id = one.queue_id AND other.group_id = one.group_id
                    AND other.handle NOT IN (SELECT handle FROM gone)
            )
            AND NOT EXISTS (
                SELECT FROM {schema}.entries AS entry
                WHERE entry.queue_id = one.queue_id AND entry.group_key = one.group_id::text
            )
            AND pg_try_advisory_xact_lock({schema}.group_lock(one.queue_id, one.group_id::text))
    )
    SELECT count(*) INTO forgotten FROM gone;
    RETURN forgotten;
END
$function$;

-- The sides of dialogs as they stand, read without locks. `receive_sequence`: the number that comes next; `unread`: what
-- waits in the queue; `waiting`: what waits to be delivered, and `transmission_status` why.
CREATE VIEW {schema}.dialog_states AS
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
        ELSE format('the dialog was cleaned up at the service "%s"', one.to_service)
    END, '; ') AS status
    FROM {schema}.transmission AS one LEFT JOIN {schema}.services AS service ON service.service = one.to_service
    WHERE one.handle = known.handle
) AS undelivered ON undelivered.waiting > 0;

-- Everything that is defined, with its version, as of one moment. Whoever routes has to know all of it.
CREATE OR REPLACE FUNCTION {schema}.definitions()
RETURNS TABLE (kind text, id bigint, name text, definition jsonb, state text, owner text, incarnation integer)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
BEGIN
    PERFORM {schema}.permit_anything();
    RETURN QUERY
        SELECT 'version', max(version), NULL, NULL::jsonb, NULL, NULL, NULL::integer FROM {schema}.changes
        UNION ALL
        SELECT 'type', NULL, type, definition, NULL, NULL, NULL FROM {schema}.types
        UNION ALL
        SELECT 'queue', queue_id, queue, definition, CASE WHEN enabled THEN 'on' ELSE 'off' END, owner, incarnation
        FROM {schema}.queues
        UNION ALL
        SELECT 'subscription', subscription_id, subscription, definition, state, NULL, NULL
        FROM {schema}.subscriptions
        UNION ALL
        SELECT 'contract', NULL, contract, definition, NULL, NULL, NULL FROM {schema}.contracts
        UNION ALL
        SELECT 'service', queue_id, service, definition, NULL, NULL, NULL FROM {schema}.services;
END
$function$;

-- Is there something for a turn to do in a group?
CREATE OR REPLACE FUNCTION {schema}.has_work(of_queue integer, of_group text, now_us bigint) RETURNS boolean
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $function$
BEGIN
    RETURN EXISTS (
        -- What the transaction itself has put there is numbered at its commit, and no turn sees it before.
        SELECT FROM {schema}.entries AS entry JOIN {schema}.tickets AS run USING (arrival_id)
        WHERE entry.queue_id = of_queue AND entry.group_key = of_group AND entry.status = 'arrived'
    ) OR EXISTS (
        SELECT FROM {schema}.groups
        WHERE queue_id = of_queue AND group_key = of_group AND (ready_rank IS NOT NULL OR due_at <= now_us)
    ) OR EXISTS (
        SELECT FROM {schema}.requests WHERE queue_id = of_queue AND group_key = of_group
    );
END
$function$;

-- Seconds until the next timer of a queue, or of any dialog, is due; NULL: there is none.
CREATE OR REPLACE FUNCTION {schema}.next_due(of_queue integer) RETURNS float8
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    RETURN (
        SELECT least(
            (
                SELECT (min(due_at) - {schema}.now_us()) / 1e6::float8 FROM {schema}.groups
                WHERE queue_id = of_queue AND due_at IS NOT NULL
            ),
            -- What is due and still there is in somebody's hands: it is looked at again, but not without a pause.
            (
                SELECT greatest(extract(epoch FROM due_at - clock_timestamp())::float8, 0.05) FROM {schema}.endpoints
                WHERE due_at IS NOT NULL ORDER BY due_at LIMIT 1
            )
        )
    );
END
$function$;

-- Nobody but the owner.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA {schema} FROM PUBLIC;
