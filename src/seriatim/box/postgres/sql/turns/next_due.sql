-- Purpose: seconds until the next timer of a queue is due.
-- Caller: waiting.py.
-- Locks: none.
-- Index: groups_due, its first entry.
SELECT {schema}.next_due(%(queue_id)s) AS due_s
