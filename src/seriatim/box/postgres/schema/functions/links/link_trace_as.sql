-- Answer a question about messages, for a caller that is identified. A peer without the grant gets the same answer to
-- every question. NULL: the key isn't that of a peer.
-- is: no jit, lock timeout 2s, standard strings
CREATE OR REPLACE FUNCTION {schema}.link_trace_as(of_public_key bytea, frame bytea) RETURNS bytea
AS $function$
DECLARE
    head record;
    own uuid := (SELECT known.box_id FROM {schema}.box_identity AS known);
    of_link integer;
    sender uuid := '00000000-0000-0000-0000-000000000000';
    id_length integer;
    space_length integer;
BEGIN
    IF NOT {schema}.link_knows(of_public_key) THEN
        RETURN NULL;
    END IF;
    SELECT * INTO head FROM {schema}.link_head(frame);
    sender := head.sender;
    PERFORM {schema}.link_check(head.kind = 5, 'a frame that should ask for a trace is something else');
    of_link := (
        SELECT one.link_id FROM {schema}.known_links AS one
        WHERE one.link_id = {schema}.link_of(head.sender, of_public_key) AND one.traces AND head.receiver = own
    );
    IF of_link IS NULL THEN
        RETURN {schema}.link_refusal(sender, 'nothing is known of this');
    END IF;
    id_length := least({schema}.link_u4(frame, 80), 1025);
    space_length := least({schema}.link_u4(frame, 84), 513);
    PERFORM {schema}.link_check(
        id_length BETWEEN 1 AND 1024 AND space_length <= 512 AND octet_length(frame) = 120 + id_length + space_length,
        'a frame that asks for a trace has lengths that none can have'
    );
    RETURN {schema}.link_frame(6, sender, 0, 0, 0, 0, convert_to({schema}.link_message_told(
        of_link, convert_from(substring(frame, 89, id_length), 'UTF8'), encode(substring(frame, 65, 16), 'hex')::uuid,
        convert_from(substring(frame, 89 + id_length, space_length), 'UTF8')
    )::text, 'UTF8'));
EXCEPTION
    WHEN SQLSTATE 'SQ004' OR data_exception THEN
        RETURN {schema}.link_refusal(sender, SQLERRM);
    WHEN OTHERS THEN
        -- A peer sees nothing of this box's content; its log has it.
        RAISE WARNING 'a trace over a link failed: % (%)', SQLERRM, SQLSTATE;
        RETURN {schema}.link_refusal(sender, 'the box can''t tell it: its log says why');
END
$function$;
