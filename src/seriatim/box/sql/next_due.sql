-- Purpose: seconds until the next timer of a queue is due.
-- Caller: waiting.py.
-- Locks: none.
-- Index: groups_due, its first entry.
SELECT (min(due_at) - {schema}.now_us()) / 1e6::float8 AS due_s FROM {schema}.groups
WHERE queue_id = %(queue_id)s AND due_at IS NOT NULL
