-- Purpose: the periods that count from a future time, since the database's clock was ahead then; by queue and kind,
-- with the last time of each. Of groups, those with a running clock.
-- Index: entries_delayed, entries_arrived (for each queue), groups_standing, entries_of_group; all leases and dialogs
-- are read.
WITH moment AS MATERIALIZED (
    SELECT clock_timestamp() AS at, {schema}.now_us() AS us
)
SELECT coalesce(place.queue, '') AS queue, found.kind, count(*) AS count, max(found.until) AS until
FROM (
    SELECT queue_id, 'lease' AS kind, expires_at AS until FROM {schema}.leases
    WHERE renewed_at > (SELECT at FROM moment)
    UNION ALL
    SELECT queue_id, 'delayed message', visible_at FROM {schema}.entries
    WHERE delayed_at > (SELECT at FROM moment) AND visible_at > (SELECT at FROM moment) AND visible_at < 'infinity'
    UNION ALL
    SELECT place.queue_id, 'new message', to_timestamp(one.rank / 1e6 + (one.priority - 5) * 10)
    FROM {schema}.queues AS place JOIN {schema}.entries AS one
        ON one.queue_id = place.queue_id AND one.status = 'arrived' AND one.rank > (SELECT us - 50000000 FROM moment)
    WHERE one.rank + (one.priority - 5) * 10000000 > (SELECT us FROM moment) + 1000000 -- messages of one call are a microsecond apart
    UNION ALL
    SELECT known.queue_id, 'group', to_timestamp(known.due_at / 1e6) FROM {schema}.known_groups AS known
    WHERE (known.flags & {flag.SUSPENDED|FAULTED} <> 0 OR known.since <> {NEVER}) AND known.due_at IS NOT NULL
        AND known.since > greatest((SELECT us FROM moment), (
            SELECT max((extract(epoch FROM entry.visible_at) * 1000000)::bigint) FROM {schema}.entries AS entry
            WHERE entry.queue_id = known.queue_id AND entry.group_key = known.group_key
                AND entry.visible_at < 'infinity'
        ))
    UNION ALL
    SELECT queue_id, 'dialog', due_at FROM {schema}.endpoints
    WHERE timer_at IS NOT NULL AND timer_set_at > (SELECT at FROM moment)
        OR expires_at IS NOT NULL AND began_at > (SELECT at FROM moment)
    UNION ALL
    SELECT NULL, 'stream', next_try_at FROM {schema}.link_streams_out
    WHERE next_try_at > (SELECT at + interval '1 hour' FROM moment)
) AS found LEFT JOIN {schema}.queues AS place USING (queue_id)
GROUP BY 1, 2 ORDER BY 1, 2
