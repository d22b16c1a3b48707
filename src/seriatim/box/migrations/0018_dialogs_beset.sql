-- What besets dialogs: messages whose transaction is rolled back again and again, and queues that are full.

-- Of a group of a service's queue: which message was rolled back last, how often in a row, and by which transaction last
-- (the 32 bits that a row says): none counts twice. Written in transactions apart, or it would be rolled back, too.
CREATE TABLE {schema}.rollbacks (
    queue_id integer NOT NULL REFERENCES {schema}.queues ON DELETE CASCADE,
    group_key text COLLATE "C" NOT NULL,
    entry_id bigint NOT NULL,
    times integer NOT NULL,
    last_by bigint NOT NULL,
    PRIMARY KEY (queue_id, group_key)
);

-- Leave a mark on the first message of a delivery, and see whether there is one: who locks a row stays written in it,
-- also where he was rolled back. Answers with the transaction that was rolled back; NULL where there is none, or it
-- counts already. `begun`: dialogs of which it is the first message. The caller has the lock of the group.
CREATE FUNCTION {schema}.take_in_hand(of_queue integer, of_group text, of_entry bigint, begun uuid[]) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $function$
DECLARE
    own bigint := pg_current_xact_id()::text::bigint & 4294967295;
    following bigint := pg_snapshot_xmax(pg_current_snapshot())::text::bigint;
    found bigint;
    whole bigint;
BEGIN
    PERFORM {schema}.permit_entries(of_queue, ARRAY[of_entry]);
    IF cardinality(begun) > 0 THEN
        PERFORM {schema}.converse(begun);
    END IF;
    SELECT entry.xmax::text::bigint INTO found FROM {schema}.entries AS entry WHERE entry.entry_id = of_entry;
    PERFORM FROM {schema}.entries AS entry WHERE entry.entry_id = of_entry FOR UPDATE SKIP LOCKED;
    IF found IN (0, own) THEN
        RETURN NULL;
    END IF;
    -- A row keeps the lower half of a transaction's number.
    whole := following - ((following - found) & 4294967295);
    IF whole BETWEEN 3 AND following - 1 AND pg_xact_status(whole::text::xid8) = 'aborted' AND NOT EXISTS (
        SELECT FROM {schema}.rollbacks AS known
        WHERE known.queue_id = of_queue AND known.group_key = of_group AND known.last_by = found
    ) THEN
        RETURN found;
    END IF;
    RETURN NULL;
END
$function$;

-- Count a rollback that has left its mark. At so many in a row the group is suspended, by a request that its next turn
-- obeys, and counting begins anew: then TRUE. `own`: the transaction that has the group, and will put the message back.
CREATE FUNCTION {schema}.note_rollback(
    of_queue integer, of_group text, of_entry bigint, rolled_back bigint, own bigint, at_most integer
) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
DECLARE
    counted integer;
BEGIN
    PERFORM {schema}.permit_entries(of_queue, ARRAY[of_entry]);
    INSERT INTO {schema}.rollbacks AS known (queue_id, group_key, entry_id, times, last_by)
    VALUES (of_queue, of_group, of_entry, 1, rolled_back)
    ON CONFLICT (queue_id, group_key) DO UPDATE SET
        times = CASE WHEN known.entry_id = excluded.entry_id THEN known.times + 1 ELSE 1 END,
        entry_id = excluded.entry_id, last_by = excluded.last_by
    RETURNING known.times INTO counted;
    IF counted < at_most THEN
        RETURN FALSE;
    END IF;
    UPDATE {schema}.rollbacks AS known SET times = 0, last_by = own
    WHERE known.queue_id = of_queue AND known.group_key = of_group;
    INSERT INTO {schema}.requests (queue_id, group_key, action, rank)
    VALUES (of_queue, of_group, 'suspend', {schema}.now_us());
    INSERT INTO {schema}.operator_log (actor, action, queue, group_key, reason)
    SELECT
        'seriatim', 'suspend', place.queue, of_group,
        format(
            'the message %s of type %s was rolled back %s times in a row', stored.message_id, left(stored.type, 300), counted
        )
    FROM {schema}.entries AS entry
    JOIN {schema}.spool AS stored USING (arrival_id, position)
    JOIN {schema}.queues AS place USING (queue_id)
    WHERE entry.entry_id = of_entry;
    RETURN TRUE;
END
$function$;

-- Which of some queues have as many messages as they may, or more.
CREATE FUNCTION {schema}.full_among(of_queues integer[]) RETURNS integer[]
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $function$
BEGIN
    RETURN ARRAY(
        SELECT place.queue_id
        FROM {schema}.queues AS place
        CROSS JOIN LATERAL (SELECT (place.definition ->> 'max_messages')::bigint AS most) AS limited
        WHERE place.queue_id = ANY (of_queues) AND limited.most IS NOT NULL AND limited.most <= (
            SELECT count(*) FROM (
                SELECT FROM {schema}.entries AS entry WHERE entry.queue_id = place.queue_id LIMIT limited.most
            ) AS counted
        )
    );
END
$function$;

-- Deliver what waits in the transmission queue for services of these queues (NULL: of all) that are there, in order, as
-- far as their queues have room. What somebody has in his hands is passed over: he may wait for who calls this.
CREATE FUNCTION {schema}.transmit_into(of_queues integer[]) RETURNS bigint
LANGUAGE plpgsql
SET enable_seqscan = off
AS $function$
DECLARE
    one record;
    other record;
    gathered record;
    room bigint;
    filled integer[] := ARRAY[]::integer[];
    delivered bigint := 0;
BEGIN
    FOR one IN
        SELECT
            waiting.handle, waiting.to_service, own.conversation_id, own.is_initiator, own.is_monolog, place.queue_id,
            (home.definition ->> 'max_messages')::bigint AS most
        FROM (
            SELECT handle, to_service, min(transmission_id) AS since FROM {schema}.transmission
            WHERE of_queues IS NULL OR to_service IN (
                SELECT known.service FROM {schema}.services AS known WHERE known.queue_id = ANY (of_queues)
            ) GROUP BY handle, to_service
        ) AS waiting
        JOIN {schema}.endpoints AS own USING (handle)
        JOIN {schema}.services AS place ON place.service = waiting.to_service
        JOIN {schema}.queues AS home ON home.queue_id = place.queue_id
        WHERE place.definition -> 'contracts' ? own.contract OR NOT own.is_initiator
        ORDER BY waiting.since
    LOOP
        CONTINUE WHEN one.queue_id = ANY (filled);
        room := CASE WHEN one.most IS NOT NULL THEN one.most - (SELECT count(*) FROM (
            SELECT FROM {schema}.entries AS entry WHERE entry.queue_id = one.queue_id LIMIT one.most
        ) AS counted) END;
        IF room <= 0 THEN
            filled := filled || one.queue_id;
            CONTINUE;
        END IF;
        PERFORM FROM {schema}.endpoints AS own WHERE own.handle = one.handle FOR NO KEY UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        -- Where somebody has changed it an insertion would wait for him.
        IF one.is_initiator AND NOT EXISTS (
            SELECT FROM {schema}.endpoints AS far
            WHERE far.conversation_id = one.conversation_id AND NOT far.is_initiator AND far.service = one.to_service
        ) THEN
            PERFORM {schema}.add_targets(ARRAY[one.handle]);
        END IF;
        SELECT far.handle, far.state INTO other FROM {schema}.endpoints AS far
        WHERE far.conversation_id = one.conversation_id AND far.is_initiator <> one.is_initiator
            AND far.service = one.to_service FOR NO KEY UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND OR other.state NOT IN ('SI', 'CO') AND NOT one.is_monolog;
        WITH sent AS (
            DELETE FROM {schema}.transmission AS waiting
            WHERE waiting.transmission_id IN (
                SELECT known.transmission_id FROM {schema}.transmission AS known
                WHERE known.handle = one.handle AND known.to_service = one.to_service
                ORDER BY known.transmission_id LIMIT room
            )
            RETURNING waiting.*
        )
        SELECT
            array_agg(other.handle) AS receivers, array_agg(type ORDER BY transmission_id) AS kinds,
            array_agg(content_type ORDER BY transmission_id) AS content_types,
            array_agg(body ORDER BY transmission_id) AS bodies, array_agg(sequence ORDER BY transmission_id) AS sequences
        INTO gathered FROM sent;
        CONTINUE WHEN gathered.receivers IS NULL;
        IF other.state IN ('SI', 'CO') THEN
            PERFORM {schema}.post(
                gathered.receivers, gathered.kinds, gathered.content_types, gathered.bodies, gathered.sequences, FALSE
            );
            delivered := delivered + cardinality(gathered.receivers);
        END IF;
        IF 'EndDialog' = ANY (gathered.kinds) THEN
            IF other.state IN ('SI', 'CO') THEN
                PERFORM {schema}.become(gathered.receivers[1], 'DI');
            END IF;
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

-- As `transmit_into`, of one queue, for who receives from it.
CREATE FUNCTION {schema}.transmit_to(of_queue integer) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    RETURN {schema}.transmit_into(ARRAY[of_queue]);
END
$function$;

-- Does anything wait in the transmission queue for a service of that queue?
CREATE FUNCTION {schema}.is_awaited(of_queue integer) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $function$
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[of_queue]);
    RETURN EXISTS (
        SELECT FROM {schema}.services AS place JOIN {schema}.transmission AS one ON one.to_service = place.service
        WHERE place.queue_id = of_queue
    );
END
$function$;

-- As `transmit_into`, of all queues.
CREATE OR REPLACE FUNCTION {schema}.transmit() RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM {schema}.permit('route', ARRAY[]::integer[]);
    RETURN {schema}.transmit_into(NULL);
END
$function$;

-- Send messages in dialogs, all or none; in their order. What can't be delivered yet waits in the transmission queue.
CREATE OR REPLACE FUNCTION {schema}.try_send(
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
                    WHEN far.queue_id = ANY (crowded) OR EXISTS (
                        SELECT FROM {schema}.transmission AS before
                        WHERE before.to_service = address.to_service COLLATE "C" AND before.handle = given.handle
                    ) THEN 'waits' ELSE 'posted' END
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

-- End a side of a dialog: `verb` is end, end with error, or clean up. What waits for it goes, but for messages that its
-- turn has in hand.
CREATE OR REPLACE FUNCTION {schema}.try_end(
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

-- Forget sides that have been closed for so long, and what is remembered of conversation groups that have none any more.
-- Answers with how many sides.
CREATE OR REPLACE FUNCTION {schema}.forget_closed(older_than interval) RETURNS bigint
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
    ), uncounted AS (
        DELETE FROM {schema}.rollbacks AS known USING gone
        WHERE known.queue_id = gone.queue_id AND known.group_key = gone.group_id::text
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
CREATE OR REPLACE VIEW {schema}.dialog_states AS
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
        ELSE format('the dialog was cleaned up at the service "%s"', one.to_service)
    END, '; ') AS status
    FROM {schema}.transmission AS one LEFT JOIN {schema}.services AS service ON service.service = one.to_service
    WHERE one.handle = known.handle
) AS undelivered ON undelivered.waiting > 0;

-- Nobody but the owner, unless he lets them in.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA {schema} FROM PUBLIC;
