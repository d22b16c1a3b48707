-- Purpose: the actions of operators, newest first: on a queue or one of its groups, by one actor, one action, or in a
-- range of time; with lower numbers than one.
-- Index: operator_log_of_group where a queue is given, else operator_log_pkey.
SELECT operation_id, at, actor, action, queue, group_key AS "group", reason, details, role
FROM {schema}.operator_log AS one
WHERE {operation_fits()}
ORDER BY operation_id DESC
LIMIT %(limit)s
