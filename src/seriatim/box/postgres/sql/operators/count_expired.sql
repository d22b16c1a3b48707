-- Purpose: how many groups of a queue were idle since before a moment, and not stopped.
-- Index: known_groups_pkey: all of a queue.
SELECT count(*) AS groups FROM {schema}.known_groups
WHERE queue_id = %(queue_id)s AND touched_at < %(before)s::timestamptz AND ready_rank IS NULL AND due_at IS NULL
    AND flags & {flag.SUSPENDED|FAULTED} = 0
