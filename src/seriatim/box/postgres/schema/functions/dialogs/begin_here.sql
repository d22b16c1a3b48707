-- Make the target's side of a dialog that another box has begun. What it needs was looked at when the message came.
-- is: sql
CREATE OR REPLACE FUNCTION {schema}.begin_here(item {schema}.dialog_inbox) RETURNS {schema}.endpoints
BEGIN ATOMIC
    INSERT INTO {schema}.endpoints (
        handle, conversation_id, is_initiator, service, queue_id, to_services, contract, group_id, state, priority,
        encryption, retains, expires_at, link_id, opened_in, number, receive_sequence, receive_chain, send_chain
    )
    SELECT gen_random_uuid(), item.conversation_id, FALSE, place.service, place.queue_id,
        ARRAY[item.said ->> 'service'], item.said ->> 'contract', gen_random_uuid(), 'SI',
        (item.said ->> 'priority')::smallint, FALSE, coalesce((place.definition ->> 'retention')::boolean, FALSE),
        item.came_at + make_interval(secs => (item.said ->> 'lifetime')::double precision),
        item.link_id, (item.said #>> '{number,0}')::bigint, (item.said #>> '{number,1}')::bigint, 0,
        {schema}.first_dialog_chain(item.conversation_id, TRUE), {schema}.first_dialog_chain(item.conversation_id, FALSE)
    FROM {schema}.known_services AS place
    WHERE place.service = (item.said ->> 'far_service') COLLATE "C" AND place.queue_id IS NOT NULL
    RETURNING *;
END;
