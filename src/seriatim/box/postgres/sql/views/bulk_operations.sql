-- Purpose: bulk operations, the newest first, at most so many; one of them, or those that aren't over.
-- Index: bulk_operations_pkey.
SELECT
    bulk_id, action, at_once,
    ARRAY(SELECT place.queue FROM {schema}.queues AS place WHERE place.queue_id = ANY (one.queue_ids) ORDER BY 1) AS queues, filter, actor, reason, role, gathered_at, begun_at, moved_at, ended_at, cancelled_by,
    cancelled_because, groups, done, refused, changed
FROM {schema}.bulk_operations AS one
WHERE (%(bulk_id)s::bigint IS NULL OR bulk_id = %(bulk_id)s)
    AND (%(before)s::bigint IS NULL OR bulk_id < %(before)s)
    AND (NOT %(is_open)s::boolean OR ended_at IS NULL)
ORDER BY bulk_id DESC
LIMIT %(limit)s
