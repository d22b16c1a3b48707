-- Purpose: links with what waits on them.
-- Index: link_streams_to_send, entries_arrived.
SELECT
    one.link,
    CASE
        WHEN one.peer IS NULL OR one.definition IS NULL AND one.role IS NULL AND one.public_key IS NULL THEN 'unpaired'
        WHEN one.last_error IS NOT NULL THEN 'down'
        WHEN one.sent_at IS NULL AND one.received_at IS NULL THEN 'new'
        ELSE 'ok'
    END AS state,
    one.peer AS box,
    CASE WHEN one.role IS NOT NULL THEN pg_get_userbyid(one.role::oid)::text END AS role,
    encode(one.public_key, 'hex') AS public_key,
    one.definition IS NOT NULL AS has_address,
    one.queues,
    one.traces,
    coalesce(waits.waiting, 0)::bigint AS waiting,
    coalesce(outward.unacknowledged, 0)::bigint AS unacknowledged,
    coalesce(outward.streams, 0)::bigint AS streams_out,
    (SELECT count(*) FROM {schema}.link_streams_in AS come WHERE come.link_id = one.link_id) AS streams_in,
    coalesce(outward.ending, 0)::bigint AS ending,
    one.sent, one.received, one.replayed, one.restored,
    least(waits.oldest, (
        SELECT min(message.entered_at) FROM {schema}.link_streams_out AS stream
        CROSS JOIN LATERAL (
            SELECT waiting.entered_at FROM {schema}.link_messages AS waiting
            WHERE waiting.stream_id = stream.stream_id AND waiting.number > stream.acked ORDER BY waiting.number LIMIT 1
        ) AS message
        WHERE stream.link_id = one.link_id AND (stream.status <> {status.OPEN} OR stream.acked < stream.sent)
    )) AS oldest,
    one.sent_at AS last_sent,
    one.received_at AS last_received,
    coalesce(one.last_error, outward.last_error) AS last_error,
    {schema}.link_warnings(one.link_id) AS warnings,
    one.older_at,
    one.refused,
    one.refused_at
FROM {schema}.known_links AS one
LEFT JOIN LATERAL (
    SELECT sum(stream.sent - stream.acked) AS unacknowledged, count(*) AS streams,
        count(*) FILTER (WHERE stream.status = {status.ENDING}) AS ending, max(stream.last_error) AS last_error
    FROM {schema}.link_streams_out AS stream WHERE stream.link_id = one.link_id
) AS outward ON TRUE
LEFT JOIN LATERAL (
    SELECT count(*) AS waiting, min(to_timestamp(entry.rank / 1e6)) AS oldest
    FROM {schema}.queues AS place JOIN {schema}.entries AS entry USING (queue_id)
    WHERE place.definition ->> 'at' = one.link
) AS waits ON TRUE
ORDER BY one.link
