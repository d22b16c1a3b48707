-- The streams over links, for roles with a right on their queue here; of a dialog: on the queue of its side. `sent` and
-- `acknowledged`: the numbers of the last such messages, or of the last received one.
CREATE OR REPLACE VIEW {schema}.link_streams WITH (security_barrier) AS
SELECT
    road.link, stream.direction, stream.destination, stream.key, stream.incarnation, stream.number, stream.state,
    stream.sent, stream.acknowledged, stream.attempts, stream.next_try_at, stream.last_error, stream.last_used
FROM (
    SELECT
        one.link_id, 'out' AS direction, one.queue_id, one.destination, one.key::text AS key, one.incarnation, one.number,
        (ARRAY['open', 'closing', 'ending'])[one.status + 1] AS state, one.sent, one.acked AS acknowledged,
        one.attempts, nullif(one.next_try_at, '-infinity') AS next_try_at, one.last_error, one.last_used, ':i' AS ours
    FROM {schema}.link_streams_out AS one
    UNION ALL
    SELECT
        one.link_id, 'in', place.queue_id, one.destination, one.key, one.incarnation, one.number, 'open', NULL,
        one.received, NULL, NULL, NULL, one.last_used, ':t'
    FROM {schema}.link_streams_in AS one LEFT JOIN {schema}.queues AS place ON place.queue = one.destination COLLATE "C"
) AS stream
JOIN {schema}.known_links AS road USING (link_id)
WHERE (SELECT {schema}.sees_all()) OR coalesce((
    SELECT own.queue_id FROM {schema}.endpoints AS own
    WHERE stream.key ~ '^[0-9a-f-]{36}:[it]$' AND own.link_id = stream.link_id
        AND own.conversation_id = CASE WHEN stream.key ~ '^[0-9a-f-]{36}:[it]$' THEN left(stream.key, 36)::uuid END
        AND own.is_initiator = (right(stream.key, 2) = stream.ours)
), stream.queue_id) = ANY ((SELECT {schema}.sees('any'))::integer[]);
