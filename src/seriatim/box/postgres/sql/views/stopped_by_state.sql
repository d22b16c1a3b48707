-- Purpose: how many groups of each queue are stopped, by state, with the longest stopped one; and how many of them need
-- an operator: those that stand still.
-- Index: groups_standing.
SELECT
    queue,
    state,
    count(*) AS groups,
    count(*) FILTER (WHERE stands) AS needing,
    min(since) AS since,
    (array_agg(group_key ORDER BY stands DESC, since, group_key))[1] AS "group"
FROM {schema}.stopped_groups
GROUP BY queue, state
ORDER BY queue, state
