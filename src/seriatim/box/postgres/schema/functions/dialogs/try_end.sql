-- End a side of a dialog: `verb` is end, end with error, or clean up. Its messages are deleted, except those that its
-- turn has in hand.
-- is: definer, generic plan, no seqscan
CREATE OR REPLACE FUNCTION {schema}.try_end(
    of_handle uuid, what_verb text, code integer, why text, in_hand text[],
    OUT refused text, OUT what text, OUT remedy text
)
AS $function$
DECLARE
    own {schema}.endpoints;
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
    IF own.link_id IS NOT NULL THEN
        PERFORM {schema}.end_far(own, what_verb, becomes, rule.tells, code, why, in_hand);
        RETURN;
    END IF;
    -- In a state that an end doesn't change, it has been said, and may be on its way.
    IF what_verb <> 'end' AND rule.becomes <> rule.state THEN
        DELETE FROM {schema}.known_transmission AS one WHERE one.handle = of_handle;
    END IF;
    -- No receiver exists for it any more; a service that takes the first message may still come.
    DELETE FROM {schema}.known_transmission AS one
    WHERE one.handle = of_handle AND NOT EXISTS (
        SELECT FROM {schema}.endpoints AS other
        WHERE other.conversation_id = own.conversation_id AND other.is_initiator <> own.is_initiator
            AND other.service = one.to_service AND other.state NOT IN ('DO', 'ER', 'CD')
    ) AND NOT (own.is_initiator AND {schema}.first_waits(of_handle, one.to_service));
    waits := EXISTS (SELECT FROM {schema}.known_transmission AS one WHERE one.handle = of_handle);
    IF what_verb <> 'clean up' AND (NOT own.is_monolog OR own.is_initiator) AND rule.becomes <> rule.state THEN
        FOR far IN
            SELECT known.handle, known.state, known.service FROM {schema}.endpoints AS known
            WHERE known.conversation_id = own.conversation_id AND known.is_initiator <> own.is_initiator
            ORDER BY known.handle
        LOOP
            -- If messages are on their way, the end follows them.
            CONTINUE WHEN waits AND EXISTS (
                SELECT FROM {schema}.known_transmission AS one
                WHERE one.to_service = far.service AND one.handle = of_handle
            );
            PERFORM {schema}.happen(
                far.handle, CASE what_verb WHEN 'end' THEN 'end comes' ELSE 'error comes' END, own.send_sequence, code,
                why
            );
            told := told OR far.state IN ('SI', 'CO');
        END LOOP;
        IF waits AND rule.tells = 'EndDialog' THEN
            INSERT INTO {schema}.known_transmission (handle, to_service, sequence, type, body)
            SELECT of_handle, one.to_service, own.send_sequence, rule.tells, ''
            FROM (SELECT DISTINCT known.to_service FROM {schema}.known_transmission AS known
                WHERE known.handle = of_handle) AS one;
        END IF;
    END IF;
    IF rule.tells = 'EndDialog' THEN
        UPDATE {schema}.endpoints AS known SET send_sequence = known.send_sequence + 1 WHERE known.handle = of_handle;
    END IF;
    -- There is no other side that would have to end, too; and a listener of a monolog isn't waited for.
    IF becomes = 'DO' AND NOT waits AND (NOT told OR own.is_monolog) THEN
        becomes := CASE rule.state WHEN 'DO' THEN 'DO' ELSE 'CD' END;
    END IF;
    IF becomes <> own.state THEN
        PERFORM {schema}.become(of_handle, becomes);
    END IF;
    IF becomes IN ('DO', 'CD') THEN
        PERFORM {schema}.drop_unread(of_handle, in_hand, NULL);
        -- Messages on their way to it, because its queue is full, are deleted as well.
        DELETE FROM {schema}.known_transmission AS one USING {schema}.endpoints AS other
        WHERE other.conversation_id = own.conversation_id AND other.is_initiator <> own.is_initiator
            AND one.handle = other.handle AND one.to_service = own.service;
    END IF;
END
$function$;
