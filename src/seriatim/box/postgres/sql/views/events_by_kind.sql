-- Purpose: how many events of each kind there are, the most frequent first; chosen as for events.sql.
-- Caller: events.py.
-- Locks: none.
-- Index: events_of_group where a queue and a group are given, else events_pkey.
SELECT
    one.kind, count(*) AS events, count(DISTINCT (one.queue_id, one.group_key)) AS groups, min(one.at) AS first,
    max(one.at) AS last
FROM {schema}.events AS one
WHERE (%(queue)s::text IS NULL OR one.queue_id = (
    SELECT known.queue_id FROM {schema}.queues AS known WHERE known.queue = %(queue)s
))
    AND (%(group_key)s::text IS NULL OR one.group_key = %(group_key)s)
    AND (%(pattern)s::text IS NULL OR one.group_key LIKE %(pattern)s)
    AND (%(kinds)s::text[] IS NULL OR one.kind = ANY (%(kinds)s::text[]))
    AND (%(since)s::timestamptz IS NULL OR one.at >= %(since)s::timestamptz)
    AND (%(since_ago)s::interval IS NULL OR one.at >= clock_timestamp() - %(since_ago)s::interval)
    AND (%(until)s::timestamptz IS NULL OR one.at < %(until)s::timestamptz)
    AND (%(until_ago)s::interval IS NULL OR one.at < clock_timestamp() - %(until_ago)s::interval)
GROUP BY one.kind
ORDER BY events DESC, one.kind
LIMIT %(limit)s
