-- Purpose: `one`, a row of operator_log, fits a command's filter.
(%(queue)s::text IS NULL OR one.queue = %(queue)s) AND (%(group)s::text IS NULL OR one.group_key = %(group)s)
AND (%(actor)s::text IS NULL OR one.actor = %(actor)s) AND (%(action)s::text IS NULL OR one.action = %(action)s)
AND {in_time(one.at)}
AND (%(before)s::bigint IS NULL OR one.operation_id < %(before)s)
