-- Purpose: how many messages the parts of a batch have for queues with limits, by queue: those that wait for room, and
-- those that only subscriptions of roles have led there.
-- Index: staged_entries_of_part.
SELECT
    queue_id,
    count(*) FILTER (WHERE subscription_ids = '{}' OR NOT subscription_ids <@ %(roles_own)s::integer[]) AS messages,
    count(*) FILTER (WHERE subscription_ids <> '{}' AND subscription_ids <@ %(roles_own)s::integer[]) AS by_roles
FROM {schema}.staged_entries
WHERE part_id = ANY (%(part_ids)s::bigint[]) AND queue_id = ANY (%(queue_ids)s::integer[]) AND problem IS NULL
    AND (group_key <> '' OR meaning IS NULL) -- a void without order needs no room
GROUP BY queue_id ORDER BY queue_id
