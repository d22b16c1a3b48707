-- What sides of dialogs have said and what hasn't been delivered yet, or isn't acknowledged by the other box; for roles
-- that may receive from the queue of the side, or look at it. `sequence`: NULL for what is said outside the numbers.
-- `status`: why it waits.
CREATE OR REPLACE VIEW {schema}.transmission WITH (security_barrier) AS
WITH far_side AS NOT MATERIALIZED (
    -- `key`: see `dialog_key`, which a role may not call.
    SELECT one.*, one.conversation_id::text || CASE WHEN one.is_initiator THEN ':i' ELSE ':t' END AS key
    FROM {schema}.endpoints AS one WHERE one.link_id IS NOT NULL
)
SELECT
    own.handle, own.conversation_id, own.service, said.to_service, road.link, said.sequence, said.type, said.body_bytes,
    said.sent_at,
    CASE
        WHEN here.disabled_by IS NOT NULL THEN 'this box is disabled: seriatim box enable'
        WHEN own.link_id IS NOT NULL AND road.link_id IS NULL THEN 'its link was removed'
        WHEN said.last_error IS NOT NULL THEN said.last_error
        WHEN road.last_error IS NOT NULL THEN road.last_error
        WHEN road.version < 2 AND coalesce(road.sent_at, road.received_at) IS NOT NULL THEN format(
            'the other box of the link "%s" speaks version 1 of the protocol, and dialogs need version 2: upgrade it', road.link
        )
        WHEN road.link_id IS NOT NULL THEN format(
            CASE WHEN said.has_left THEN 'it waits for an answer over the link "%s"' ELSE 'it waits for the link "%s"' END, road.link
        )
        WHEN service.service IS NULL THEN format('there is no service "%s"', said.to_service)
        WHEN NOT service.definition -> 'contracts' ? own.contract AND own.is_initiator THEN
            format('the service "%s" doesn''t accept the contract "%s"', said.to_service, own.contract)
        WHEN far.state IN ('SI', 'CO') THEN format('the queue of the service "%s" is full', said.to_service)
        WHEN far.state = 'DO' THEN format('the service "%s" has ended the dialog', said.to_service)
        ELSE format('the dialog was cleaned up at the service "%s"', said.to_service)
    END AS status
FROM (
    SELECT
        one.handle, one.to_service, one.sequence, one.type, octet_length(one.body) AS body_bytes, one.sent_at,
        NULL::text AS last_error,
        FALSE AS has_left
    FROM {schema}.known_transmission AS one WHERE one.type <> ''
    UNION ALL
    SELECT
        side.handle, side.to_services[1], split_part(sent.message_id, ':', 3)::bigint,
        convert_from(sent.header, 'UTF8')::jsonb ->> 'type', octet_length(sent.body), sent.entered_at, stream.last_error, TRUE
    FROM far_side AS side
    JOIN {schema}.link_streams_out AS stream ON stream.queue_id = 0 AND stream.key = side.key
    JOIN {schema}.link_messages AS sent ON sent.stream_id = stream.stream_id AND sent.number > stream.acked
    WHERE sent.message_id NOT LIKE '%:check'
    UNION ALL
    SELECT side.handle, side.to_services[1], NULL, what.kind, 0, sent.entered_at, stream.last_error, TRUE
    FROM far_side AS side CROSS JOIN (VALUES ('error'), ('gone')) AS what (kind)
    JOIN {schema}.link_messages AS sent ON sent.message_id = side.key || ':' || what.kind
    JOIN {schema}.link_streams_out AS stream ON stream.stream_id = sent.stream_id AND stream.acked < sent.number
    UNION ALL
    SELECT
        side.handle, side.to_services[1], NULL, one.kind, 0, one.said_at, NULL, FALSE
    FROM far_side AS side
    JOIN {schema}.dialog_records AS one
        ON one.link_id = side.link_id AND one.conversation_id = side.conversation_id AND one.is_initiator = side.is_initiator
) AS said
JOIN {schema}.endpoints AS own ON own.handle = said.handle
LEFT JOIN {schema}.box_identity AS here ON here.is_only
LEFT JOIN {schema}.known_links AS road ON road.link_id = own.link_id
LEFT JOIN {schema}.known_services AS service ON service.service = said.to_service
LEFT JOIN {schema}.endpoints AS far
    ON far.conversation_id = own.conversation_id AND far.is_initiator <> own.is_initiator AND far.service = said.to_service
WHERE own.queue_id = ANY ((SELECT {schema}.sees('receive'))::integer[] || (SELECT {schema}.sees('see'))::integer[]);
