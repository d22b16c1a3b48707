-- Purpose: present instances, by id; of one queue, group or status, and behind an id, if these are given.
-- Index: known_instances_pkey, known_instances_queue_id_group_key_key.
SELECT
    instance_id, queue, group_key AS "group", status, subscription, starts, correlations, waiting, state, version,
    started_at, changed_at
FROM {schema}.instances
WHERE (%(instance_id)s::bigint IS NULL OR instance_id = %(instance_id)s)
    AND (%(queue)s::text IS NULL OR queue = %(queue)s)
    AND (%(group)s::text IS NULL OR group_key = %(group)s)
    AND (%(status)s::text IS NULL OR status = %(status)s)
    AND instance_id > %(after)s
ORDER BY instance_id
LIMIT %(limit)s
