-- The present sides of dialogs, read without locks. `receive_sequence`: the next number; `unread`: messages in the
-- queue; `waiting`: messages to be delivered, with the reason in `transmission_status`. `acknowledged`: the other box has
-- all numbers below; `unanswered_since`: since when something waits for its acknowledgement.
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
            SELECT min(one.sequence) FROM {schema}.known_transmission AS one
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
    undelivered.waiting,
    undelivered.status AS transmission_status,
    known.began_at,
    known.closed_at,
    known.expires_at,
    known.timer_at,
    known.error_code,
    known.error,
    road.peer AS far_box,
    road.link,
    CASE WHEN stream.number IS NOT NULL THEN format('%s/%s', stream.incarnation, stream.number) END AS stream,
    CASE WHEN road.link_id IS NOT NULL THEN coalesce(undelivered.next, known.send_sequence) END AS acknowledged,
    greatest(road.sent_at, road.received_at) AS last_contact,
    CASE WHEN known.link_id IS NOT NULL THEN undelivered.since END AS unanswered_since
FROM {schema}.endpoints AS known
JOIN {schema}.queues AS place USING (queue_id)
LEFT JOIN {schema}.known_links AS road ON road.link_id = known.link_id
LEFT JOIN {schema}.link_streams_out AS stream
    ON known.link_id IS NOT NULL AND stream.queue_id = 0
    AND stream.key = {schema}.dialog_key(known.conversation_id, known.is_initiator)
CROSS JOIN LATERAL (
    SELECT count(*) AS waiting, min(one.sequence) AS next, min(one.sent_at) AS since, CASE
        WHEN known.link_id IS NULL THEN string_agg(DISTINCT one.status, '; ')
        ELSE (array_agg(one.status ORDER BY one.sequence))[1] -- the others wait for it
    END AS status
    FROM {schema}.transmission AS one WHERE one.handle = known.handle
) AS undelivered;
