-- Purpose: the operator log, newest first, with a row for a run: the consecutive entries of one actor with one action
-- and one reason. Of the next `among` entries with lower numbers than one; at most `limit` runs; of each the newest
-- `listed` entries, and of one that is a single entry its details.
-- Index: operator_log_of_group where a queue is given, else operator_log_pkey.
WITH read AS (
    SELECT operation_id, at, actor, action, queue, group_key, reason, role
    FROM {schema}.operator_log AS one
    WHERE {operation_fits()}
    ORDER BY operation_id DESC
    LIMIT %(among)s
), begun AS (
    SELECT read.*, (actor, action, reason, role) IS DISTINCT FROM lag((actor, action, reason, role)) OVER by_number AS begins
    FROM read WINDOW by_number AS (ORDER BY operation_id DESC)
), numbered AS (
    SELECT begun.*, count(*) FILTER (WHERE begins) OVER by_number AS run, count(*) OVER () AS all_read
    FROM begun WINDOW by_number AS (ORDER BY operation_id DESC)
), runs AS (
    SELECT
        max(operation_id) AS operation_id, min(operation_id) AS first_id, max(at) AS at, min(at) AS since, min(actor) AS actor,
        min(action) AS action, min(reason) AS reason, min(role) AS role, count(*) AS count,
        array_agg(DISTINCT queue) FILTER (WHERE queue IS NOT NULL) AS queues,
        (array_agg(queue ORDER BY operation_id DESC))[1:%(listed)s::integer] AS of_queues,
        (array_agg(group_key ORDER BY operation_id DESC))[1:%(listed)s::integer] AS of_groups,
        min(all_read) = %(among)s AND run = max(run) OVER () AS is_cut
    FROM numbered
    GROUP BY run
    ORDER BY run
    LIMIT %(limit)s
)
SELECT runs.*, CASE WHEN count = 1 THEN (SELECT details FROM {schema}.operator_log AS one WHERE one.operation_id = runs.operation_id) END AS details
FROM runs
ORDER BY operation_id DESC
