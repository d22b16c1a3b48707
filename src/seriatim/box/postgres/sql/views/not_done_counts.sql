-- Purpose: how many messages of some queues aren't done, by the reason, and when the first of them is due; for those
-- behind a missing number, when the first time-out ends.
-- Index: entries_of_group: all of a queue; known_groups_pkey.
SELECT one.queue, one.why, count(*) AS messages, min(coalesce(one.until, to_timestamp(known.due_at / 1e6))) AS until
FROM {schema}.not_done AS one
LEFT JOIN {schema}.known_groups AS known
    ON one.why = 'held' AND known.queue_id = one.queue_id AND known.group_key = one.group_key
WHERE one.queue = ANY (%(queues)s::text[])
GROUP BY one.queue, one.why ORDER BY one.queue, one.why
