-- Purpose: groups as they stand, by queue and key; of one queue or state, behind a given one.
-- Caller: groups.py.
-- Locks: none.
-- Index: groups_pkey; entries_of_group and operator_log_of_group once a group.
SELECT
    queue, group_key AS "group", state, locked, next, arrived, held, queued, hole_since, hole_through, last_released,
    ordinal, incarnation, due_at, suspended_by, suspended_because, in_hand
FROM {schema}.group_states
WHERE (%(queue)s::text IS NULL OR queue = %(queue)s) AND (%(state)s::text IS NULL OR state = %(state)s)
    AND (%(after_queue)s::text IS NULL OR (queue, group_key) > (%(after_queue)s, %(after_group)s::text))
ORDER BY queue, group_key
LIMIT %(limit)s
