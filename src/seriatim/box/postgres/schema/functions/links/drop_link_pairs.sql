-- In a copy of a box, delete the pairs with other boxes, which are the original's, and the messages to send. Return
-- how many messages are deleted.
-- is: no seqscan, no jit
CREATE OR REPLACE FUNCTION {schema}.drop_link_pairs() RETURNS bigint
AS $function$
DECLARE
    gone bigint := (SELECT coalesce(sum(sent - acked), 0) FROM {schema}.link_streams_out WHERE acked < sent);
    place record;
BEGIN
    FOR place IN SELECT queue_id FROM {schema}.queues WHERE definition ->> 'at' IS NOT NULL LOOP
        gone := gone + (SELECT count(*) FROM {schema}.entries WHERE queue_id = place.queue_id);
        PERFORM {schema}.link_leave(ARRAY(SELECT entry_id FROM {schema}.entries WHERE queue_id = place.queue_id));
    END LOOP;
    PERFORM {schema}.leave_dialogs(
        one.link_id, {COPY_CODE}, 'this box is a copy, and the original goes on with the dialog'
    ) FROM {schema}.known_links AS one;
    DELETE FROM {schema}.dialog_inbox WHERE TRUE;
    DELETE FROM {schema}.dialog_records WHERE TRUE;
    DELETE FROM {schema}.conversations WHERE TRUE;
    DELETE FROM {schema}.link_streams_out WHERE TRUE;
    DELETE FROM {schema}.link_streams_in WHERE TRUE;
    DELETE FROM {schema}.link_numbers WHERE TRUE;
    UPDATE {schema}.known_links SET peer = NULL, role = NULL, public_key = NULL, traces = FALSE, replayed_through = 0
    WHERE TRUE;
    RETURN gone;
END
$function$;
