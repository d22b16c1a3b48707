-- Purpose: groups of a bulk operation, by queue and key, at most so many; with this result, or without one, or that weren't done.
-- Index: bulk_groups_pkey; bulk_groups_not_done; bulk_groups_left.
SELECT one.queue_id, place.queue, one.group_key AS "group", one.result, one.why, one.operation_id
FROM (
    SELECT * FROM {schema}.bulk_groups
    WHERE bulk_id = %(bulk_id)s
        AND (%(after_queue)s::integer IS NULL OR (queue_id, group_key) > (%(after_queue)s::integer, %(after_key)s::text))
        AND CASE %(result)s::text
            WHEN 'left' THEN result IS NULL
            WHEN 'not done' THEN result <> 'done'
            ELSE %(result)s::text IS NULL OR result = %(result)s
        END
    ORDER BY queue_id, group_key
    LIMIT %(limit)s
) AS one
LEFT JOIN {schema}.queues AS place USING (queue_id)
ORDER BY one.queue_id, one.group_key
