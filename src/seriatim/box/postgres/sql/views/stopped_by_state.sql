-- Purpose: how many groups of each queue are stopped, by state, with the longest stopped one; and how many of them need
-- an operator: a hole doesn't as long as a time-out will end it, or it is younger than `patience_s`.
-- Index: groups_standing.
SELECT
    queue,
    state,
    count(*) AS groups,
    count(*) FILTER (
        WHERE state <> 'waiting' OR NOT is_timed AND since < clock_timestamp() - make_interval(secs => %(patience_s)s)
    ) AS needing,
    min(since) AS since,
    (array_agg(group_key ORDER BY since, group_key))[1] AS "group"
FROM {schema}.stopped_groups
GROUP BY queue, state
ORDER BY queue, state
