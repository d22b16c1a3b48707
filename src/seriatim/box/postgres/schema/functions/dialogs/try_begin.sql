-- Begin a dialog, or a monolog to several services. Return its handle, or the reason for a refusal.
-- is: definer, generic plan, no seqscan
CREATE OR REPLACE FUNCTION {schema}.try_begin(
    from_service text, to_services text[], by_contract text, lifetime interval, related_to uuid, in_group uuid,
    its_priority integer, encryption boolean, is_monolog boolean, given uuid,
    OUT handle uuid, OUT refused text, OUT what text, OUT remedy text
)
AS $function$
#variable_conflict use_variable
DECLARE
    own record;
    related record;
    over_link integer := {schema}.choose_box(to_services);
    its_conversation uuid := gen_random_uuid();
    its_group uuid := in_group;
BEGIN
    PERFORM {schema}.permit('receive', ARRAY[]::integer[]);
    PERFORM {schema}.hold_definitions();
    SELECT known.queue_id, coalesce((known.definition ->> 'retention')::boolean, FALSE) AS retains INTO own
    FROM {schema}.known_services AS known WHERE known.service = from_service COLLATE "C" AND known.queue_id IS NOT NULL;
    refused := 'usage';
    IF own IS NULL THEN
        what := format('there is no service "%s"', left(from_service, 300));
        remedy := 'a dialog begins at a service of this box: define it';
        RETURN;
    END IF;
    PERFORM {schema}.permit('receive', ARRAY[own.queue_id]);
    IF NOT EXISTS (SELECT FROM {schema}.known_contracts AS known WHERE known.contract = by_contract COLLATE "C") THEN
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
    IF is_monolog AND over_link IS NOT NULL THEN
        what := 'a monolog can''t have a listener in another box yet';
        remedy := 'begin a dialog with it';
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
        PERFORM {schema}.take_lock({schema}.group_lock(own.queue_id, in_group::text), 'a conversation group');
    END IF;
    handle := coalesce(given, gen_random_uuid());
    INSERT INTO {schema}.endpoints (
        handle, conversation_id, is_initiator, is_monolog, service, queue_id, to_services, contract, group_id, state,
        priority, encryption, retains, expires_at, link_id, receive_sequence, receive_chain, send_chain
    ) VALUES (
        handle, its_conversation, TRUE, is_monolog, from_service, own.queue_id, to_services, by_contract,
        coalesce(its_group, gen_random_uuid()), 'SO', its_priority, coalesce(encryption, FALSE), own.retains,
        clock_timestamp() + lifetime, over_link, CASE WHEN over_link IS NOT NULL THEN 0 END,
        CASE WHEN over_link IS NOT NULL THEN {schema}.first_dialog_chain(its_conversation, FALSE) END,
        CASE WHEN over_link IS NOT NULL THEN {schema}.first_dialog_chain(its_conversation, TRUE) END
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
