-- Purpose: how many messages of some queues aren't done, by why, and when the first of them is due.
-- Caller: not_done.py.
-- Locks: none.
-- Index: entries_of_group: all of a queue.
SELECT queue, why, count(*) AS messages, min(until) AS until
FROM {schema}.not_done WHERE queue = ANY (%(queues)s::text[])
GROUP BY queue, why ORDER BY queue, why
