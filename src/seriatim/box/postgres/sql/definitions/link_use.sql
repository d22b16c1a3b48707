-- Purpose: which queues and services lead over a link, how many messages are on their way or haven't reached their side here, and how
--     many sides of dialogs aren't closed.
-- Index: link_streams_to_send, transmission_of_link, dialog_records_pkey, endpoints_of_link; none for the inbox.
SELECT
    ARRAY(
        SELECT queue FROM {schema}.queues WHERE definition ->> 'at' = %(name)s
        UNION ALL
        SELECT 'service ' || service FROM {schema}.known_services WHERE queue_id IS NULL AND definition -> 'at' ? %(name)s ORDER BY 1
    ) AS queues,
    (
        SELECT coalesce(sum(stream.sent - stream.acked), 0)::bigint
        FROM {schema}.link_streams_out AS stream WHERE stream.link_id = one.link_id AND stream.acked < stream.sent
    ) + (SELECT count(*) FROM {schema}.known_transmission AS said WHERE said.link_id = one.link_id AND said.type <> '')
    + (SELECT count(*) FROM {schema}.dialog_records AS said WHERE said.link_id = one.link_id)
    + (
        SELECT count(*) FROM {schema}.dialog_inbox AS come
        WHERE come.link_id = one.link_id AND come.said ->> 'kind' = 'number'
    ) AS waiting,
    (SELECT count(*) FROM {schema}.endpoints AS side WHERE side.link_id = one.link_id AND side.state <> 'CD') AS dialogs
FROM {schema}.known_links AS one WHERE one.link = %(name)s
