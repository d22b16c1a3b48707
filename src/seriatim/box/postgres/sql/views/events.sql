-- Purpose: events of groups, newest first, a page of them; of one queue, group, pattern of keys, kinds or time. An event
-- that an operator caused is told with the actor and the reason.
-- Index: events_of_group where a queue and a group are given, else events_pkey; operator_log_pkey.
{shown_events()}
WHERE {event_fits()}
    AND (%(before)s::bigint IS NULL OR one.event_id < %(before)s)
ORDER BY one.event_id DESC
LIMIT %(limit)s
