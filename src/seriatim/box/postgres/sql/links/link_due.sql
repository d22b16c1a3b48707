-- Purpose: in how many seconds messages can be sent over a link whose address this box has; NULL: nothing waits, or the box is disabled.
-- Index: link_streams_to_send (the first entry of each link), entries_arrived, link_streams_of_keys, known_groups_pkey,
-- transmission_of_link.
SELECT CASE WHEN NOT {schema}.is_stopped() THEN least(
    (
        SELECT extract(epoch FROM min(next.at) - clock_timestamp())
        FROM {schema}.known_links AS one CROSS JOIN LATERAL (
            SELECT greatest(stream.next_try_at, clock_timestamp()) AS at FROM {schema}.link_streams_out AS stream
            WHERE stream.link_id = one.link_id AND (stream.status <> {status.OPEN} OR stream.acked < stream.sent)
            ORDER BY stream.next_try_at LIMIT 1
        ) AS next
        WHERE one.definition IS NOT NULL
    ),
    (
        SELECT 0 FROM {schema}.queues AS place
        JOIN {schema}.known_links AS one
            ON one.link = place.definition ->> 'at' AND one.definition IS NOT NULL AND one.peer IS NOT NULL
        CROSS JOIN LATERAL (
            SELECT FROM {schema}.entries AS entry
            WHERE entry.queue_id = place.queue_id AND entry.status = 'arrived' AND entry.visible_at IS NULL
                AND coalesce((
                    SELECT stream.status = {status.OPEN} AND stream.sent - stream.acked < {WINDOW}
                    FROM {schema}.link_streams_out AS stream
                    WHERE stream.queue_id = place.queue_id AND stream.key = entry.group_key
                ), TRUE)
                AND coalesce((
                    SELECT known.flags <= {flag.BEGUN} FROM {schema}.known_groups AS known
                    WHERE known.queue_id = place.queue_id AND known.group_key = entry.group_key
                ), TRUE)
            LIMIT 1
        ) AS waiting
        WHERE place.enabled LIMIT 1
    ),
    (
        SELECT 0 FROM {schema}.known_links AS one
        WHERE one.definition IS NOT NULL AND one.peer IS NOT NULL AND one.version >= 2 AND (
            EXISTS (SELECT FROM {schema}.dialog_records AS said WHERE said.link_id = one.link_id)
            OR EXISTS (
                SELECT FROM {schema}.known_transmission AS waiting JOIN {schema}.endpoints AS own USING (handle)
                WHERE waiting.link_id = one.link_id AND NOT EXISTS (
                    SELECT FROM {schema}.link_streams_out AS stream
                    WHERE stream.queue_id = 0 AND stream.key = {schema}.dialog_key(own.conversation_id, own.is_initiator)
                        AND (stream.status <> {status.OPEN} OR stream.acked < stream.sent)
                )
            )
        ) LIMIT 1
    )
) END::double precision AS due_s
