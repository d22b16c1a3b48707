-- The messages that these queues have or keep.
CREATE OR REPLACE VIEW {schema}.messages_seen AS
SELECT
    kept.arrival_id, kept.position,
    bool_or(kept.queue_id = ANY ((SELECT {schema}.sees('see_bodies'))::integer[])) AS with_body
FROM (
    SELECT arrival_id, position, queue_id FROM {schema}.entries
    UNION ALL
    SELECT arrival_id, position, queue_id FROM {schema}.aside
    UNION ALL
    SELECT arrival_id, position, queue_id FROM {schema}.history
) AS kept
WHERE kept.queue_id = ANY ((SELECT {schema}.sees('see'))::integer[])
GROUP BY kept.arrival_id, kept.position;
