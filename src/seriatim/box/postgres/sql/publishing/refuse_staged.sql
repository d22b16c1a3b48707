-- Purpose: make messages that only subscriptions of roles have led to full queues invalid there.
-- Locks: the rows, which are the batch's.
-- Index: staged_entries_of_part.
UPDATE {schema}.staged_entries SET problem = %(why)s
WHERE part_id = ANY (%(part_ids)s::bigint[]) AND queue_id = ANY (%(queue_ids)s::integer[]) AND problem IS NULL
    AND subscription_ids <> '{}' AND subscription_ids <@ %(roles_own)s::integer[]
