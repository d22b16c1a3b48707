-- Count the streams of a frame that couldn't be made whole. If one was of dialogs, let all sides of dialogs over the link look at
-- their other ones, when they are locked next. Once for a frame: each call reads all sides.
-- is: sql
CREATE OR REPLACE FUNCTION {schema}.link_count_restored(of_link integer, how_many bigint, of_dialogs boolean) RETURNS void
BEGIN ATOMIC
    UPDATE {schema}.known_links SET restored = restored + how_many WHERE link_id = of_link AND how_many > 0;
    INSERT INTO {schema}.dialog_inbox (link_id, conversation_id, to_initiator, said)
    SELECT of_link, side.conversation_id, side.is_initiator, '{"kind": "restored"}'
    FROM (
        SELECT known.conversation_id, known.is_initiator FROM {schema}.endpoints AS known WHERE known.link_id = of_link
        UNION
        SELECT come.conversation_id, come.to_initiator FROM {schema}.dialog_inbox AS come WHERE come.link_id = of_link
    ) AS side
    WHERE of_dialogs AND NOT EXISTS (
        SELECT FROM {schema}.dialog_inbox AS come
        WHERE come.conversation_id = side.conversation_id AND come.to_initiator = side.is_initiator
            AND come.said = '{"kind": "restored"}'
    );
END;
