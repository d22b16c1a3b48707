-- Purpose: the newest events of a group, newest first.
-- Index: events_of_group; operator_log_pkey.
{shown_events()}
WHERE one.queue_id = %(queue_id)s AND one.group_key = %(group_key)s
ORDER BY one.event_id DESC
LIMIT %(limit)s
