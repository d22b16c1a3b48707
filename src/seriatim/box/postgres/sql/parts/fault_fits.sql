-- Purpose: `one`, a row of faults, and `place`, its queue, fit a command's filter.
(%(queue)s::text IS NULL OR place.queue = %(queue)s)
AND (%(group)s::text IS NULL OR one.group_key = %(group)s)
AND (%(key)s::text IS NULL OR one.group_key LIKE %(key)s)
AND (%(message_id)s::text IS NULL OR one.message_id = %(message_id)s)
AND (%(kind)s::text IS NULL OR one.kind = %(kind)s)
AND (%(older_than)s::interval IS NULL OR one.at < clock_timestamp() - %(older_than)s::interval)
AND {in_time(one.at)}
AND {is_of_wanted(one)}
AND (%(error_class)s::text IS NULL OR one.error_class = %(error_class)s)
AND (%(error)s::text IS NULL OR one.error_class || ': ' || one.error ILIKE %(error)s)
