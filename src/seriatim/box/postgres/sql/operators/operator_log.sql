-- Purpose: what operators did to a queue or one of its groups, newest first: with lower numbers than one.
-- Caller: operator_log.py.
-- Locks: none.
-- Index: operator_log_of_group where a queue is given, else operator_log_pkey.
SELECT operation_id, at, actor, action, queue, group_key AS "group", reason, details, role
FROM {schema}.operator_log
WHERE (%(queue)s::text IS NULL OR queue = %(queue)s) AND (%(group_key)s::text IS NULL OR group_key = %(group_key)s)
    AND (%(before)s::bigint IS NULL OR operation_id < %(before)s)
ORDER BY operation_id DESC
LIMIT %(limit)s
