-- Purpose: the workers of queues at their last heartbeats, with their messages in hand; of one queue, or all.
-- Index: workers_of_queue; entries_pkey for what is in hand.
SELECT
    queue, host, pid, name, role::text AS role, is_reader, mode, started_at, seen_at, silent_s, is_silent,
    capacity AS workers, threads, run_length, rate, busy, in_hand
FROM {schema}.workers
WHERE %(queue)s::text IS NULL OR queue = %(queue)s
ORDER BY queue, host, pid, name
