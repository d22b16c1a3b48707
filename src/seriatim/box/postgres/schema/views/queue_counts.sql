-- The messages of each queue, and those that it has set aside. `in_hand`: of a pipeline; a worker's messages are
-- counted with their former status. `faulted`: messages that are stopped by themselves. `oldest`: the arrival of the
-- oldest message.
CREATE OR REPLACE VIEW {schema}.queue_counts AS
SELECT
    place.queue,
    place.definition -> 'policy' ->> 'name' AS policy,
    place.enabled,
    place.owner,
    entry.arrived,
    entry.held,
    entry.queued,
    entry.in_hand,
    aside.late,
    aside.duplicate,
    aside.invalid,
    aside.rejected,
    aside.dead,
    to_timestamp(entry.oldest_us / 1e6) AS oldest,
    {schema}.whole_number(place.definition -> 'max_messages') AS max_messages,
    entry.faulted,
    aside.void
FROM {schema}.queues AS place
CROSS JOIN LATERAL (
    SELECT
        count(*) FILTER (WHERE status = 'arrived') AS arrived,
        count(*) FILTER (WHERE status IN ('held', 'placed')) AS held,
        count(*) FILTER (WHERE status = 'queued') AS queued,
        count(*) FILTER (WHERE status = 'in_hand') AS in_hand,
        min(rank + (priority - 5) * 10000000) AS oldest_us,
        count(*) FILTER (WHERE status = 'faulted') AS faulted
    FROM {schema}.entries AS one WHERE one.queue_id = place.queue_id
) AS entry
CROSS JOIN LATERAL (
    SELECT
        count(*) FILTER (WHERE disposition = 'late') AS late,
        count(*) FILTER (WHERE disposition = 'duplicate') AS duplicate,
        count(*) FILTER (WHERE disposition = 'invalid') AS invalid,
        count(*) FILTER (WHERE disposition = 'rejected') AS rejected,
        count(*) FILTER (WHERE disposition = 'dead') AS dead,
        count(*) FILTER (WHERE disposition = 'void') AS void
    FROM {schema}.aside AS one WHERE one.queue_id = place.queue_id
) AS aside;
