-- Say something outside the numbers to the other box, once: `error`, or `gone`. Nothing is said over a link that was removed,
-- or of a side that the other box can't know.
-- is: sql
CREATE OR REPLACE FUNCTION {schema}.say(
    over_link integer, in_conversation uuid, as_initiator boolean, what text, of_incarnation bigint, of_number bigint,
    code integer, why text
) RETURNS void
BEGIN ATOMIC
    INSERT INTO {schema}.dialog_records (
        link_id, conversation_id, is_initiator, kind, incarnation, number, code, why
    )
    SELECT over_link, in_conversation, as_initiator, what, of_incarnation, of_number, code, why
    FROM {schema}.known_links AS one WHERE one.link_id = over_link AND of_number IS NOT NULL
    ON CONFLICT DO NOTHING;
END;
