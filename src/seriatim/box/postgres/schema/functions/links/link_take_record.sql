-- Put a record of a dialog into the inbox of its side: an insert, which waits for no application.
-- is: sql
CREATE OR REPLACE FUNCTION {schema}.link_take_record(of_link integer, said jsonb, body bytea, replayed boolean) RETURNS void
BEGIN ATOMIC
    INSERT INTO {schema}.dialog_inbox (link_id, conversation_id, to_initiator, queue_id, said, body, replayed)
    SELECT of_link, (said ->> 'conversation')::uuid, NOT (said ->> 'initiator')::boolean, coalesce((
        SELECT own.queue_id FROM {schema}.endpoints AS own
        WHERE own.conversation_id = (said ->> 'conversation')::uuid
            AND own.is_initiator <> (said ->> 'initiator')::boolean
    ), (
        SELECT place.queue_id FROM {schema}.known_services AS place
        WHERE place.service = (said ->> 'far_service') COLLATE "C"
    )), said, body, replayed;
END;
