-- Purpose: in how many seconds something can be sent over a link whose address this box has; NULL: nothing waits.
-- Caller: bell.py.
-- Locks: none.
-- Index: link_streams_to_send, entries_arrived.
SELECT least(
    (
        SELECT extract(epoch FROM min(CASE WHEN stream.next_try_at = '-infinity' THEN clock_timestamp() ELSE stream.next_try_at END) - clock_timestamp())
        FROM {schema}.links AS one JOIN {schema}.link_streams_out AS stream USING (link_id)
        WHERE one.definition IS NOT NULL AND (stream.status <> 0 OR stream.acked < stream.sent)
    ),
    (
        SELECT 0 WHERE EXISTS (
            SELECT FROM {schema}.queues AS place
            JOIN {schema}.links AS one ON one.link = place.definition ->> 'at' AND one.definition IS NOT NULL AND one.peer IS NOT NULL
            JOIN {schema}.entries AS entry ON entry.queue_id = place.queue_id AND entry.status = 'arrived'
            LEFT JOIN {schema}.link_streams_out AS stream
                ON stream.link_id = one.link_id AND stream.queue_id = place.queue_id AND stream.key = entry.group_key
            WHERE place.enabled AND entry.visible_at IS NULL AND (stream.stream_id IS NULL OR stream.status = 0 AND stream.sent - stream.acked < 1000)
                AND NOT EXISTS (
                    SELECT FROM {schema}.known_groups AS known
                    WHERE known.queue_id = place.queue_id AND known.group_key = entry.group_key AND known.flags > 1
                )
        )
    )
)::double precision AS due_s
