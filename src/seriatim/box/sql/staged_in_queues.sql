-- Purpose: how many messages the parts of a batch have for queues that may have so many, by queue.
-- Caller: room.py, before a batch is merged.
-- Locks: none.
-- Index: staged_entries_of_part.
SELECT queue_id, count(*) AS messages FROM {schema}.staged_entries
WHERE part_id = ANY (%(part_ids)s::bigint[]) AND queue_id = ANY (%(queue_ids)s::integer[]) AND problem IS NULL
GROUP BY queue_id ORDER BY queue_id
