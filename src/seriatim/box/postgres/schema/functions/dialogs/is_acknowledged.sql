-- Return whether the other box has all that a side has said, and the side has obeyed all that came; or whether its link
-- was removed.
-- is: sql, stable
CREATE OR REPLACE FUNCTION {schema}.is_acknowledged(
    of_handle uuid, of_conversation uuid, as_initiator boolean, over_link integer
) RETURNS boolean
RETURN NOT EXISTS (SELECT FROM {schema}.known_links AS one WHERE one.link_id = over_link) OR NOT EXISTS (SELECT FROM {schema}.known_transmission AS one WHERE one.handle = of_handle)
    AND NOT EXISTS (
        SELECT FROM {schema}.dialog_records AS one
        WHERE one.conversation_id = of_conversation AND one.is_initiator = as_initiator
    ) AND NOT EXISTS (
        SELECT FROM {schema}.dialog_inbox AS one
        WHERE one.conversation_id = of_conversation AND one.to_initiator = as_initiator
    ) AND NOT EXISTS (
        SELECT FROM {schema}.link_streams_out AS one
        WHERE one.queue_id = 0 AND one.key = {schema}.dialog_key(of_conversation, as_initiator) AND one.acked < one.sent
    ) AND NOT EXISTS (
        SELECT FROM {schema}.link_messages AS one JOIN {schema}.link_streams_out AS stream USING (stream_id)
        WHERE one.message_id IN (
            {schema}.dialog_key(of_conversation, as_initiator) || ':error',
            {schema}.dialog_key(of_conversation, as_initiator) || ':gone'
        ) AND one.number > stream.acked
    );
