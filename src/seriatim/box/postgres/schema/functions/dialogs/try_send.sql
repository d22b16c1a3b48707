-- Send messages in dialogs, all or none; in their order. Messages that can't be delivered yet wait in the
-- transmission queue.
-- is: definer, generic plan, no seqscan
CREATE OR REPLACE FUNCTION {schema}.try_send(
    handles uuid[], kinds text[], content_types text[], bodies bytea[],
    OUT refused text, OUT what text, OUT remedy text
)
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
        array_agg(known.conversation_id) AS conversations, 
        array_agg(known.to_services[1]) FILTER (WHERE known.link_id IS NOT NULL) AS far_services
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
    LEFT JOIN {schema}.known_contracts AS agreed USING (contract)
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
    PERFORM {schema}.permit_sending(own.far_services) WHERE own.far_services IS NOT NULL;
    IF own.begins THEN
        PERFORM {schema}.add_targets(handles);
    END IF;
    PERFORM FROM {schema}.endpoints AS far
    WHERE far.conversation_id = ANY (own.conversations) AND far.handle <> ALL (handles)
    ORDER BY far.handle FOR KEY SHARE;
    crowded := ARRAY(
        SELECT known.queue_id FROM {schema}.endpoints AS known WHERE known.conversation_id = ANY (own.conversations)
    );
    crowded := CASE WHEN {schema}.is_stopped() THEN crowded ELSE {schema}.full_among(crowded) END;
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
            counted.link_id,
            far.handle AS receiver, far.queue_id, address.to_service, counted.retains,
            CASE
                WHEN far.state IN ('SO', 'SI', 'CO', 'DI') THEN CASE
                    WHEN far.queue_id = ANY (crowded) OR before.waits THEN 'waits' ELSE 'posted' END
                -- If nothing waits for a missing side, it existed, and is forgotten.
                WHEN counted.is_monolog AND (far.handle IS NOT NULL OR counted.base > 0 AND NOT before.waits)
                    THEN 'left out'
                ELSE 'waits' END AS becomes
        FROM given JOIN counted USING (handle)
        CROSS JOIN LATERAL unnest(counted.to_services) AS address (to_service)
        LEFT JOIN {schema}.endpoints AS far
            ON far.conversation_id = counted.conversation_id AND far.is_initiator <> counted.is_initiator
            AND far.service = address.to_service COLLATE "C"
        CROSS JOIN LATERAL (SELECT EXISTS (
            SELECT FROM {schema}.known_transmission AS one
            WHERE one.to_service = address.to_service COLLATE "C" AND one.handle = given.handle
        ) AS waits) AS before
    ), waiting AS (
        INSERT INTO {schema}.known_transmission (handle, to_service, sequence, type, content_type, body, link_id)
        SELECT handle, to_service, sequence, type, content_type, body, link_id
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
