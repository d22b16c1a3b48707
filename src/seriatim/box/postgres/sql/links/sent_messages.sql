-- Purpose: messages on their way to other boxes, or kept after their acknowledgement, by their ids.
-- Index: link_messages_of_ids, link_streams_out_pkey.
SELECT
    waiting.message_id, waiting.entered_at, waiting.acked_at, waiting.number, waiting.replayed OR waiting.number <= stream.marked AS replayed,
    one.link, one.peer, place.queue, stream.destination, stream.key, stream.incarnation, stream.number AS stream,
    waiting.number <= stream.acked AS is_acknowledged, stream.attempts, stream.last_error
FROM {schema}.link_messages AS waiting
JOIN {schema}.link_streams_out AS stream USING (stream_id)
JOIN {schema}.known_links AS one USING (link_id)
LEFT JOIN {schema}.queues AS place USING (queue_id)
WHERE waiting.message_id = %(message_id)s
ORDER BY stream.incarnation, stream.number, waiting.number
