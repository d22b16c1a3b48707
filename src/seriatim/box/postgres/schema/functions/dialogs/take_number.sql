-- Take a message of a dialog from another box, its EndDialog, or a check: if it is the next one, and both boxes have one
-- history.
-- is: generic plan
CREATE OR REPLACE FUNCTION {schema}.take_number(own {schema}.endpoints, item {schema}.dialog_inbox) RETURNS void
AS $function$
DECLARE
    said jsonb := item.said;
    is_check boolean := said ->> 'kind' = 'check';
    is_end boolean := said ->> 'type' = 'EndDialog';
    ahead bigint := own.receive_sequence - (said ->> 'sequence')::bigint;
    before bytea := decode(said ->> 'chain', 'hex');
    behind bytea := {schema}.dialog_chain(before, coalesce(said ->> 'type', ''), item.body);
    fits boolean;
    why text;
BEGIN
    IF own.state IN ('ER', 'CD') THEN
        IF is_check THEN
            PERFORM {schema}.compare_boxes(own);
        END IF;
        RETURN;
    END IF;
    fits := CASE
        WHEN is_check THEN ahead = 0 AND before = own.receive_chain
            AND (said ->> 'got')::bigint <= own.send_sequence
        WHEN ahead = 0 THEN before = own.receive_chain
        WHEN ahead = 1 THEN behind = own.receive_chain
        ELSE ahead > 1 AND NOT is_end
    END;
    IF NOT fits THEN
        why := format(
            'the two boxes have two histories of the dialog: one has sent %s, and %s of them came; one of them went back in time',
            said ->> 'sequence', own.receive_sequence
        );
        PERFORM {schema}.drop_said(own.handle);
        PERFORM {schema}.happen(own.handle, 'gone comes', NULL, {HISTORY_CODE}, why);
        PERFORM {schema}.say(
            own.link_id, own.conversation_id, own.is_initiator, 'gone', own.opened_in, own.number, {HISTORY_CODE}, why
        );
    ELSIF ahead = 0 AND NOT is_check THEN
        UPDATE {schema}.endpoints AS known SET receive_sequence = known.receive_sequence + 1, receive_chain = behind
        WHERE known.handle = own.handle;
        IF is_end THEN
            IF own.state IN ('SI', 'CO') THEN
                PERFORM {schema}.drop_said(own.handle);
            END IF;
            PERFORM {schema}.happen(own.handle, 'end comes', own.receive_sequence);
        ELSIF own.state IN ('SI', 'CO') THEN
            PERFORM {schema}.post(
                ARRAY[own.handle], ARRAY[said ->> 'type'], ARRAY[said ->> 'content_type'], ARRAY[item.body],
                ARRAY[own.receive_sequence], FALSE, item.replayed
            );
        END IF;
    END IF;
END
$function$;
