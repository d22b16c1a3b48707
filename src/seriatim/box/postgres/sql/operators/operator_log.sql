-- Purpose: what operators did, newest first: to a queue or one of its groups, by one actor, one action, or in a range of time; with
-- lower numbers than one.
-- Caller: operations_done.py.
-- Locks: none.
-- Index: operator_log_of_group where a queue is given, else operator_log_pkey.
SELECT operation_id, at, actor, action, queue, group_key AS "group", reason, details, role
FROM {schema}.operator_log
WHERE (%(queue)s::text IS NULL OR queue = %(queue)s) AND (%(group_key)s::text IS NULL OR group_key = %(group_key)s)
    AND (%(actor)s::text IS NULL OR actor = %(actor)s) AND (%(action)s::text IS NULL OR action = %(action)s)
    AND (%(since)s::timestamptz IS NULL OR at >= %(since)s::timestamptz)
    AND (%(since_ago)s::interval IS NULL OR at >= clock_timestamp() - %(since_ago)s::interval)
    AND (%(until)s::timestamptz IS NULL OR at < %(until)s::timestamptz)
    AND (%(until_ago)s::interval IS NULL OR at < clock_timestamp() - %(until_ago)s::interval)
    AND (%(before)s::bigint IS NULL OR operation_id < %(before)s)
ORDER BY operation_id DESC
LIMIT %(limit)s
