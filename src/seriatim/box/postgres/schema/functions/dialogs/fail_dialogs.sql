-- Fail dialogs with messages that don't fit their types, one of each dialog: the messages are set aside, with all
-- later ones there, and the dialogs fail on both sides. The caller has the locks of their groups, and has put back
-- the handed out messages. Return the entries that are set aside.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.fail_dialogs(
    handles uuid[], message_ids text[], sequences bigint[], whys text[]
) RETURNS bigint[]
AS $function$
DECLARE
    own record;
    far record;
    gone bigint[];
    set_aside bigint[] := '{}';
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
        PERFORM {schema}.happen(own.handle, 'invalid comes', NULL, {INVALID_CODE}, own.why);
        CONTINUE WHEN own.is_monolog;
        DELETE FROM {schema}.known_transmission AS one USING {schema}.endpoints AS known
        WHERE one.handle = known.handle AND known.conversation_id = own.conversation_id;
        PERFORM {schema}.say(
            own.link_id, own.conversation_id, own.is_initiator, 'error', own.opened_in, own.number, {INVALID_CODE}, own.why
        );
        FOR far IN
            SELECT known.handle FROM {schema}.endpoints AS known
            WHERE known.conversation_id = own.conversation_id AND known.is_initiator <> own.is_initiator
        LOOP
            PERFORM {schema}.happen(far.handle, 'error comes', NULL, {INVALID_CODE}, own.why);
        END LOOP;
    END LOOP;
    RETURN set_aside;
END
$function$;
