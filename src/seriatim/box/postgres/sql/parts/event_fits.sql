-- Purpose: `one`, a row of events, fits a command's filter.
(%(queue)s::text IS NULL OR one.queue_id = (
    SELECT known.queue_id FROM {schema}.queues AS known WHERE known.queue = %(queue)s
))
AND (%(group)s::text IS NULL OR one.group_key = %(group)s)
AND (%(key)s::text IS NULL OR one.group_key LIKE %(key)s)
AND (%(kinds)s::text[] IS NULL OR one.kind = ANY (%(kinds)s::text[]))
AND {in_time(one.at)}
