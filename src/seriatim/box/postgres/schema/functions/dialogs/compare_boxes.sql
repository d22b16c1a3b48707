-- After a stream couldn't be made whole, tell the other box once more where this side is.
-- is: generic plan
CREATE OR REPLACE FUNCTION {schema}.compare_boxes(own {schema}.endpoints) RETURNS void
AS $function$
BEGIN
    IF own.number IS NULL THEN
        RETURN; -- nothing has left
    ELSIF own.state IN ('ER', 'CD') OR own.state = 'DO' AND own.error_code IS NOT NULL THEN
        PERFORM {schema}.say(
            own.link_id, own.conversation_id, own.is_initiator, CASE own.state WHEN 'DO' THEN 'error' ELSE 'gone' END,
            own.opened_in, own.number, coalesce(own.error_code, {HISTORY_CODE}), coalesce(own.error, 'it is over at the other side')
        );
    ELSE
        INSERT INTO {schema}.known_transmission (handle, to_service, sequence, type, body, link_id)
        VALUES (own.handle, own.to_services[1], own.send_sequence, '', '', own.link_id);
    END IF;
END
$function$;
