-- Purpose: which queues and services lead over a link, and how many messages are on their way.
-- Index: link_streams_to_send.
SELECT
    ARRAY(
        SELECT queue FROM {schema}.queues WHERE definition ->> 'at' = %(name)s
        UNION ALL
        SELECT 'service ' || service FROM {schema}.known_services WHERE queue_id IS NULL AND definition -> 'at' ? %(name)s ORDER BY 1
    ) AS queues,
    (
        SELECT coalesce(sum(stream.sent - stream.acked), 0)::bigint FROM {schema}.known_links AS one
        JOIN {schema}.link_streams_out AS stream USING (link_id) WHERE one.link = %(name)s AND stream.acked < stream.sent
    ) AS waiting
