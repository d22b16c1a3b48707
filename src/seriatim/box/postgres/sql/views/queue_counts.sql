-- Purpose: the messages of each queue, those that it has set aside, and how many of its groups are stopped or wait for
-- a missing number; of one queue, or all.
-- Index: entries_of_group, aside_of_group: all of a queue; of a gate entries_on_way; groups_standing.
SELECT counts.queue, counts.policy, counts.enabled, counts.owner, counts.arrived, counts.held, counts.queued, counts.in_hand,
    counts.late, counts.duplicate, counts.invalid, counts.rejected, counts.dead, counts.oldest, counts.max_messages,
    coalesce(still.stopped, 0) AS stopped,
    coalesce(still.waiting, 0) AS waiting_groups,
    coalesce(still.holes, 0) AS standing_holes,
    extract(epoch FROM clock_timestamp() - counts.oldest)::float8 AS age_s,
    (
        SELECT count(*) FROM {schema}.workers AS worker WHERE worker.queue = counts.queue AND NOT worker.is_silent
    )::integer AS processes,
    counts.faulted,
    gate.open_places,
    to_timestamp(gate.open_us / 1e6) AS oldest_open,
    counts.void
FROM {schema}.queue_counts AS counts
JOIN {schema}.queues AS place USING (queue)
LEFT JOIN LATERAL {schema}.open_places_of(place.queue_id) AS gate ON TRUE
LEFT JOIN (
    SELECT
        queue,
        count(*) FILTER (WHERE state IN ('suspended', 'faulted')) AS stopped,
        count(*) FILTER (WHERE state IN ('waiting', 'timed_out')) AS waiting,
        count(*) FILTER (WHERE state IN ('waiting', 'timed_out') AND stands) AS holes
    FROM {schema}.stopped_groups
    WHERE %(queue)s::text IS NULL OR queue = %(queue)s
    GROUP BY queue
) AS still USING (queue)
WHERE %(queue)s::text IS NULL OR counts.queue = %(queue)s
ORDER BY counts.queue
