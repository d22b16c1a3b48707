-- Purpose: one group as it stands.
-- Caller: groups.py.
-- Locks: none.
-- Index: queues_queue_key, groups_pkey, entries_of_group, operator_log_of_group.
SELECT
    queue, group_key AS "group", state, locked, next, arrived, held, queued, hole_since, hole_through, last_released,
    ordinal, incarnation, due_at, suspended_by, suspended_because, in_hand
FROM {schema}.group_states
WHERE queue = %(queue)s AND group_key = %(group_key)s
