-- When a side is deleted, keep the sequence of its undelivered messages.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.keep_sequence() RETURNS trigger
AS $function$
BEGIN
    UPDATE {schema}.endpoints AS far SET far_sent = coalesce((
        SELECT min(one.sequence) FROM {schema}.known_transmission AS one
        WHERE one.handle = old.handle AND one.to_service = far.service
    ), old.send_sequence)
    WHERE far.conversation_id = old.conversation_id AND far.is_initiator <> old.is_initiator;
    RETURN NULL;
END
$function$;
