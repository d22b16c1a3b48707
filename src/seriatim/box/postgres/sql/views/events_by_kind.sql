-- Purpose: how many events of each kind there are, the most frequent first; chosen as for events.sql.
-- Index: events_of_group where a queue and a group are given, else events_pkey.
SELECT
    one.kind, count(*) AS events, count(DISTINCT (one.queue_id, one.group_key)) AS groups, min(one.at) AS first,
    max(one.at) AS last
FROM {schema}.events AS one
WHERE {event_fits()}
GROUP BY one.kind
ORDER BY events DESC, one.kind
LIMIT %(limit)s
