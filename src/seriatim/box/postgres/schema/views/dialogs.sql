-- The present sides of dialogs, read without locks. `receive_sequence`: the next number; `unread`: messages in the
-- queue; `waiting`: messages to be delivered, with the reason in `transmission_status`.
CREATE OR REPLACE VIEW {schema}.dialogs AS
SELECT
    known.handle,
    known.conversation_id,
    CASE WHEN known.expires_at <= clock_timestamp() AND known.state IN ('SO', 'SI', 'CO', 'DI') THEN 'ER'
        ELSE known.state END AS state,
    known.service,
    known.to_services,
    known.contract,
    place.queue,
    known.group_id,
    known.is_initiator,
    known.is_monolog,
    known.priority,
    known.encryption,
    known.retains AS retention,
    known.send_sequence,
    CASE WHEN known.is_monolog AND known.is_initiator THEN 0 ELSE coalesce(known.receive_sequence, (
        -- In order: messages behind the first that waits wait, too.
        SELECT coalesce((
            SELECT min(one.sequence) FROM {schema}.transmission AS one
            WHERE one.handle = far.handle AND one.to_service = known.service
        ), far.send_sequence)
        FROM {schema}.endpoints AS far
        WHERE far.conversation_id = known.conversation_id AND far.is_initiator <> known.is_initiator
    ), known.far_sent, 0) END AS receive_sequence,
    (
        SELECT count(*) FROM {schema}.entries AS entry JOIN {schema}.spool AS stored USING (arrival_id, position)
        WHERE entry.queue_id = known.queue_id AND entry.group_key = known.group_id::text
            AND stored.context -> 'dialog' ->> 'handle' = known.handle::text
    ) AS unread,
    coalesce(undelivered.waiting, 0) + coalesce(leaving.waiting, 0) AS waiting,
    coalesce(leaving.status, undelivered.status) AS transmission_status,
    known.began_at,
    known.closed_at,
    known.expires_at,
    known.timer_at,
    known.error_code,
    known.error,
    road.peer AS far_box
FROM {schema}.endpoints AS known
JOIN {schema}.queues AS place USING (queue_id)
LEFT JOIN {schema}.links AS road ON road.link_id = known.link_id
LEFT JOIN LATERAL (
    -- In its stream, and not acknowledged.
    SELECT stream.sent - stream.acked AS waiting, coalesce(
        stream.last_error, road.last_error, format('it waits for an answer over the link "%s"', road.link)
    ) AS status
    FROM {schema}.link_streams_out AS stream
    WHERE known.link_id IS NOT NULL AND stream.queue_id = 0 AND stream.acked < stream.sent
        AND stream.key = {schema}.dialog_key(known.conversation_id, known.is_initiator)
) AS leaving ON TRUE
LEFT JOIN LATERAL (
    SELECT count(*) AS waiting, string_agg(DISTINCT CASE
        WHEN known.link_id IS NOT NULL THEN CASE
            WHEN road.link_id IS NULL THEN 'its link was removed'
            WHEN road.last_error IS NOT NULL THEN road.last_error
            WHEN road.version < 2 THEN format(
                'the other box of the link "%s" speaks version 1 of the protocol, and dialogs need version 2: upgrade it', road.link
            )
            ELSE format('it waits for the link "%s"', road.link)
        END
        WHEN service.service IS NULL THEN format('there is no service "%s"', one.to_service)
        WHEN NOT service.definition -> 'contracts' ? known.contract AND known.is_initiator THEN
            format('the service "%s" doesn''t accept the contract "%s"', one.to_service, known.contract)
        WHEN EXISTS (
            SELECT FROM {schema}.endpoints AS far
            WHERE far.conversation_id = known.conversation_id AND far.is_initiator <> known.is_initiator
                AND far.service = one.to_service AND far.state IN ('SI', 'CO')
        ) THEN format('the queue of the service "%s" is full', one.to_service)
        WHEN EXISTS (
            SELECT FROM {schema}.endpoints AS far
            WHERE far.conversation_id = known.conversation_id AND far.is_initiator <> known.is_initiator
                AND far.service = one.to_service AND far.state = 'DO'
        ) THEN format('the service "%s" has ended the dialog', one.to_service)
        ELSE format('the dialog was cleaned up at the service "%s"', one.to_service)
    END, '; ') AS status
    FROM {schema}.transmission AS one LEFT JOIN {schema}.services AS service ON service.service = one.to_service
    WHERE one.handle = known.handle
) AS undelivered ON undelivered.waiting > 0;
