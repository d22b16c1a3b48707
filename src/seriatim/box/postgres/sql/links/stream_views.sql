-- Purpose: the streams of links, those that wait first.
-- Index: link_streams_to_send, link_streams_in_pkey.
SELECT * FROM (
    SELECT
        one.link, 'out' AS direction, stream.destination AS queue, stream.key, stream.incarnation, stream.number,
        (ARRAY['open', 'closing', 'ending'])[stream.status + 1] AS state, stream.sent, stream.acked AS acknowledged,
        stream.attempts, nullif(stream.next_try_at, '-infinity') AS next_try_at, stream.last_error, stream.last_used
    FROM {schema}.link_streams_out AS stream JOIN {schema}.known_links AS one USING (link_id)
    WHERE (%(name)s::text IS NULL OR one.link = %(name)s)
        AND (NOT %(waiting)s OR stream.status <> {status.OPEN} OR stream.acked < stream.sent)
    UNION ALL
    SELECT one.link, 'in', stream.destination, stream.key, stream.incarnation, stream.number, 'open', NULL,
        stream.received,
        NULL, NULL, NULL, stream.last_used
    FROM {schema}.link_streams_in AS stream JOIN {schema}.known_links AS one USING (link_id)
    WHERE (%(name)s::text IS NULL OR one.link = %(name)s) AND NOT %(waiting)s
) AS found
ORDER BY state = 'open' AND sent IS NOT DISTINCT FROM acknowledged, direction DESC, link, incarnation, number
LIMIT %(limit)s
