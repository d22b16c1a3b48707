-- End a side whose other side is in another box, by a rule of the table. What it says last: its EndDialog, as the last
-- number; or a record outside the numbers, which makes void what hasn't left.
-- is: generic plan
CREATE OR REPLACE FUNCTION {schema}.end_far(
    own {schema}.endpoints, what_verb text, becomes text, tells text, code integer, why text, in_hand text[]
) RETURNS void
AS $function$
BEGIN
    IF becomes = own.state THEN
        RETURN;
    END IF;
    IF tells = 'EndDialog' THEN
        INSERT INTO {schema}.known_transmission (handle, to_service, sequence, type, body, link_id)
        VALUES (own.handle, own.to_services[1], own.send_sequence, tells, '', own.link_id);
        UPDATE {schema}.endpoints AS known SET send_sequence = known.send_sequence + 1 WHERE known.handle = own.handle;
    ELSE
        PERFORM {schema}.drop_said(own.handle);
        IF own.number IS NULL THEN
            becomes := 'CD'; -- nobody knows of it
        ELSE
            PERFORM {schema}.say(
                own.link_id, own.conversation_id, own.is_initiator, CASE tells WHEN 'Error' THEN 'error' ELSE 'gone' END,
                own.opened_in, own.number, coalesce(code, {HISTORY_CODE}), coalesce(why, 'the other side was cleaned up')
            );
        END IF;
    END IF;
    PERFORM {schema}.become(own.handle, becomes, code, why);
    PERFORM {schema}.drop_unread(own.handle, in_hand, NULL);
END
$function$;
