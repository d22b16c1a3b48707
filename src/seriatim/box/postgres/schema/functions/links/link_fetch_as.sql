-- Return the next batch for a peer, or a refusal, and the token of its question: the door for requests of a caller with
-- a known key. No request of a peer makes it fail. NULL: the key isn't that of a peer.
-- is: no jit, lock timeout 2s, standard strings
CREATE OR REPLACE FUNCTION {schema}.link_fetch_as(of_public_key bytea, frame bytea, OUT batch bytea, OUT of_token uuid)
AS $function$
DECLARE
    head record;
    refused text;
    own uuid := (SELECT known.box_id FROM {schema}.box_identity AS known);
    of_link integer;
    sender uuid := '00000000-0000-0000-0000-000000000000';
    next record;
BEGIN
    IF NOT {schema}.link_knows(of_public_key) THEN
        RETURN;
    END IF;
    SELECT * INTO head FROM {schema}.link_head(frame);
    sender := head.sender;
    PERFORM {schema}.link_check(
        head.kind = 3 AND octet_length(frame) = 96, 'a frame that should be a request is something else'
    );
    of_link := {schema}.link_of(head.sender, of_public_key);
    IF of_link IS NULL OR head.receiver <> own THEN
        batch := {schema}.link_refusal(sender, CASE WHEN of_link IS NULL THEN 'nothing is known of this'
            ELSE format('the frame is for the box %s, and this is %s', head.receiver, own) END);
        RETURN;
    END IF;
    refused := {schema}.link_heard(of_link, head.incarnation, head.highest);
    IF refused IS NOT NULL THEN
        batch := {schema}.link_refusal(sender, refused);
        RETURN;
    END IF;
    IF {schema}.is_stopped() OR {schema}.disabled_because() IS NOT NULL THEN
        batch := {schema}.link_refusal(sender, 'the box is disabled');
        RETURN;
    END IF;
    SELECT * INTO next FROM {schema}.link_next(of_link, head.most_bytes, FALSE);
    IF next.frame IS NULL THEN
        batch := {schema}.link_refusal(sender, 'the box is busy: ask again');
        RETURN;
    END IF;
    batch := next.frame;
    of_token := next.of_token;
EXCEPTION
    WHEN SQLSTATE 'SQ004' OR data_exception THEN
        batch := {schema}.link_refusal(sender, SQLERRM);
    WHEN lock_not_available OR serialization_failure OR deadlock_detected OR unique_violation THEN
        batch := {schema}.link_refusal(sender, 'the box is busy: ask again');
    WHEN OTHERS THEN
        -- A peer sees nothing of this box's content; its log has it.
        RAISE WARNING 'a link failed: % (%)', SQLERRM, SQLSTATE;
        batch := {schema}.link_refusal(sender, 'the box can''t take it: its log says why');
END
$function$;
