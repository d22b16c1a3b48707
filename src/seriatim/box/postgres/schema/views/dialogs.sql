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
    CASE WHEN known.is_monolog AND known.is_initiator THEN 0 ELSE coalesce((
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
    coalesce(undelivered.waiting, 0) AS waiting,
    undelivered.status AS transmission_status,
    known.began_at,
    known.closed_at,
    known.expires_at,
    known.timer_at,
    known.error_code,
    known.error
FROM {schema}.endpoints AS known
JOIN {schema}.queues AS place USING (queue_id)
LEFT JOIN LATERAL (
    SELECT count(*) AS waiting, string_agg(DISTINCT CASE
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
