-- Send messages of one type in one dialog, if nothing prevents it: both sides exist, the other one's queue has no
-- limit, no message of the dialog is on its way, and no service keeps the messages. Otherwise return FALSE and change
-- nothing; then `try_send` checks each of them. The caller has checked that no body is missing, or too large.
CREATE OR REPLACE FUNCTION {schema}.send_straight(
    of_handle uuid, kind text, content_types text[], bodies bytea[]
) RETURNS boolean
AS $function$
DECLARE
    messages bigint := cardinality(bodies);
    one record;
    base bigint;
    rank bigint;
    arrival bigint;
    told jsonb;
BEGIN
    IF kind IN ('EndDialog', 'Error', 'Timer') OR EXISTS ( -- `is_stopped`, as a part of this expression
        SELECT FROM {schema}.box_identity AS known WHERE known.is_only AND known.disabled_by IS NOT NULL
    ) THEN
        RETURN FALSE;
    END IF;
    FOR attempt IN 1..2 LOOP
        SELECT
            own.queue_id AS own_queue, own.group_id AS own_group, own.state, own.is_initiator,
            own.service AS own_service, rule.becomes, far.handle, far.conversation_id, far.service, far.queue_id,
            far.group_id, far.contract,
            far.priority,
            CASE WHEN own.begun_by <> pg_current_xact_id() THEN
                {schema}.take_lock({schema}.group_lock(own.queue_id, own.group_id::text), 'a conversation group')
            END AS locked
        INTO one
        FROM {schema}.endpoints AS own
        JOIN {schema}.dialog_rules AS rule ON rule.verb = 'send' AND rule.state = own.state AND rule.refusal IS NULL
        JOIN {schema}.known_contracts AS agreed ON agreed.contract = own.contract
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
                SELECT FROM {schema}.known_transmission AS before
                WHERE before.to_service = far.service AND before.handle = own.handle
            )
        FOR KEY SHARE OF far;
        EXIT WHEN FOUND OR attempt = 2;
        -- A dialog gets its other side with its first message, unless that would be refused. A dialog that
        -- the transaction itself has begun can't be ended by others meanwhile.
        PERFORM {schema}.add_targets(ARRAY[of_handle])
        FROM {schema}.endpoints AS own JOIN {schema}.known_contracts AS agreed USING (contract)
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
    -- During the wait for its group it may have been moved, or the other side has ended.
    UPDATE {schema}.endpoints AS own SET send_sequence = own.send_sequence + messages, state = one.becomes
    WHERE own.handle = of_handle AND own.group_id = one.own_group AND own.state = one.state
        AND (own.expires_at > clock_timestamp()) IS NOT FALSE
    RETURNING own.send_sequence - messages INTO base;
    IF NOT FOUND THEN
        RETURN FALSE;
    END IF;
    INSERT INTO {schema}.arrivals (location, count, queue_ids) VALUES (one.service, messages, ARRAY[one.queue_id])
    RETURNING arrival_id INTO arrival;
    IF messages > 1 THEN -- each draws one: later messages have a higher one than all of these
        PERFORM nextval('{schema}.arrival_ids') FROM generate_series(2, messages);
    END IF;
    rank := {schema}.now_us() - (one.priority - 5) * 10000000;
    told := jsonb_build_object('dialog', jsonb_build_object(
        'handle', one.handle, 'conversation_id', one.conversation_id, 'service', one.service,
        'far_service', one.own_service, 'contract', one.contract, 'is_initiator', NOT one.is_initiator,
        'is_monolog', FALSE
    ));
    INSERT INTO {schema}.spool (arrival_id, position, message_id, type, content_type, context, body, destinations)
    SELECT
        arrival, message.place - 1, message.message_id, kind, message.content_type,
        jsonb_set(told, '{dialog,sequence}', to_jsonb(base + message.place - 1)), message.body, 1
    FROM ROWS FROM (unnest(content_types, bodies), {schema}.new_message_ids(messages)) WITH ORDINALITY
        AS message (content_type, body, message_id, place);
    INSERT INTO {schema}.entries (queue_id, group_key, rank, arrival_id, position, serial, priority)
    SELECT one.queue_id, one.group_id::text, rank, arrival, position, arrival + position, one.priority
    FROM generate_series(0, messages - 1) AS position;
    RETURN TRUE;
END
$function$;
