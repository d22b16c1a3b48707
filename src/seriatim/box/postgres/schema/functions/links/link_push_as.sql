-- Take a frame with a batch or answers, and return one: the door for a caller with a known key. No frame of a peer
-- makes it fail. For a peer that isn't granted everything is `gone`, whether it exists or not. NULL: the key isn't that
-- of a peer. `of_token`: that of the answered question.
-- is: no jit, lock timeout 2s, standard strings
CREATE OR REPLACE FUNCTION {schema}.link_push_as(of_public_key bytea, frame bytea, of_token uuid) RETURNS bytea
AS $function$
DECLARE
    head record;
    refused text;
    own uuid := (SELECT known.box_id FROM {schema}.box_identity AS known);
    of_link integer;
    sender uuid := '00000000-0000-0000-0000-000000000000';
BEGIN
    IF NOT {schema}.link_knows(of_public_key) THEN
        RETURN NULL;
    END IF;
    SELECT * INTO head FROM {schema}.link_head(frame);
    sender := head.sender;
    of_link := {schema}.link_of(head.sender, of_public_key);
    IF of_link IS NULL THEN
        IF head.kind = 1 THEN
            RETURN {schema}.link_gone(frame, head.sender, head.ranges, head.rows);
        END IF;
        RETURN {schema}.link_refusal(sender, 'nothing is known of this');
    END IF;
    IF head.receiver <> own THEN
        RETURN {schema}.link_refusal(sender, format('the frame is for the box %s, and this is %s', head.receiver, own));
    END IF;
    refused := {schema}.link_heard(of_link, head.incarnation, head.highest);
    IF refused IS NOT NULL THEN
        RETURN {schema}.link_refusal(sender, refused);
    ELSIF head.kind = 1 THEN
        RETURN (SELECT done.answers FROM {schema}.link_take(of_link, frame) AS done);
    ELSIF head.kind = 2 THEN
        PERFORM {schema}.link_answered(of_link, frame, of_token);
        -- Answers without content: these were used.
        RETURN {schema}.link_frame(2, sender, 0, 0, 0, 0, '');
    END IF;
    RETURN {schema}.link_refusal(sender, 'batches and answers are pushed');
EXCEPTION
    WHEN SQLSTATE 'SQ004' OR data_exception THEN
        RETURN {schema}.link_refusal(sender, SQLERRM);
    WHEN lock_not_available OR serialization_failure OR deadlock_detected OR unique_violation THEN
        RETURN {schema}.link_refusal(sender, 'the box is busy: ask again');
    WHEN OTHERS THEN
        -- A peer sees nothing of this box's content; its log has it.
        RAISE WARNING 'a link failed: % (%)', SQLERRM, SQLSTATE;
        RETURN {schema}.link_refusal(sender, 'the box can''t take it: its log says why');
END
$function$;
