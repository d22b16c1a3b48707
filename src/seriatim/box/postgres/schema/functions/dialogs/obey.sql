-- Obey what has come from another box for a side, in the order in which it came. The caller has the lock of its group, and
-- of its inbox. `tests/models/far_dialogs.py` is a model of it.
-- is: generic plan, no seqscan
CREATE OR REPLACE FUNCTION {schema}.obey(of_conversation uuid, as_initiator boolean) RETURNS void
AS $function$
DECLARE
    item {schema}.dialog_inbox;
    own {schema}.endpoints;
    what text;
    is_left boolean;
    is_over boolean;
BEGIN
    FOR item IN
        SELECT * FROM {schema}.dialog_inbox AS one
        WHERE one.conversation_id = of_conversation AND one.to_initiator = as_initiator ORDER BY one.inbox_id
    LOOP
        DELETE FROM {schema}.dialog_inbox AS one WHERE one.inbox_id = item.inbox_id;
        what := item.said ->> 'kind';
        SELECT known.* INTO own FROM {schema}.endpoints AS known
        WHERE known.conversation_id = of_conversation AND known.is_initiator = as_initiator FOR UPDATE;
        -- Its link was removed, and the two boxes have another one now.
        is_left := own.link_id IS NOT NULL AND NOT EXISTS (
            SELECT FROM {schema}.known_links AS one WHERE one.link_id = own.link_id
        );
        IF is_left THEN
            PERFORM {schema}.drop_said(own.handle);
            PERFORM {schema}.happen(
                own.handle, 'gone comes', NULL, {HISTORY_CODE}, 'the link to the other box was removed'
            );
            own.handle := NULL;
        END IF;
        IF own.handle IS NULL AND what <> 'restored' THEN
            is_over := {schema}.is_over(
                item.link_id, item.said,
                NOT as_initiator AND (is_left OR what <> 'number' OR item.said -> 'sequence' <> '0')
            ) OR is_left;
            IF NOT as_initiator AND what = 'number' AND item.said -> 'sequence' = '0' AND NOT is_over THEN
                own := {schema}.begin_here(item);
            END IF;
            IF own.handle IS NULL AND what <> 'gone' THEN
                PERFORM {schema}.say(
                    item.link_id, of_conversation, as_initiator, 'gone', (item.said #>> '{number,0}')::bigint,
                    (item.said #>> '{number,1}')::bigint,
                    CASE WHEN item.said -> 'sequence' = '0' AND NOT is_left THEN {UNTAKEN_CODE} ELSE {HISTORY_CODE} END,
                    'the other box has no such dialog any more, or never took anything of it'
                );
            END IF;
        END IF;
        CONTINUE WHEN own.handle IS NULL OR own.link_id IS DISTINCT FROM item.link_id;
        IF what IN ('error', 'gone') THEN
            IF own.state IN ('SI', 'CO', 'DI') THEN
                PERFORM {schema}.drop_said(own.handle);
            END IF;
            PERFORM {schema}.happen(
                own.handle, what || ' comes', NULL, (item.said ->> 'code')::integer, item.said ->> 'text'
            );
        ELSIF what = 'restored' THEN
            PERFORM {schema}.compare_boxes(own);
        ELSE
            PERFORM {schema}.take_number(own, item);
        END IF;
    END LOOP;
END
$function$;
