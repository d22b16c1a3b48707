-- Purpose: how many messages are unrouted, by the reason (NULL: no subscription matched), with the oldest and a type;
-- and how many published through SQL aren't routed yet (`is_waiting`).
-- Index: none: all that is unrouted or waits to be routed is read; spool_pkey, for one message of each reason.
SELECT part.problem, part.messages, part.is_waiting, coalesce(part.since, stored.received_at) AS since,
    extract(epoch FROM clock_timestamp() - coalesce(part.since, stored.received_at))::float8 AS age_s, stored.type
FROM (
    SELECT problem, count(*) AS messages, FALSE AS is_waiting, min(unrouted_at) AS since,
        min(ARRAY[arrival_id, position]) AS first
    FROM {schema}.unrouted GROUP BY problem
    UNION ALL
    SELECT NULL, count(*), TRUE, NULL, min(ARRAY[arrival_id, position]) FROM {schema}.to_route HAVING count(*) > 0
) AS part
LEFT JOIN LATERAL (
    SELECT one.type, one.received_at FROM {schema}.spool AS one
    WHERE one.arrival_id = part.first[1] AND one.position = part.first[2]
) AS stored ON TRUE
ORDER BY part.messages DESC, part.problem
