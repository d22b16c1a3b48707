-- Purpose: write down what an operator did.
-- Caller: operator_log.py, forget.py, queue_release.py.
-- Locks: none.
-- Index: none.
INSERT INTO {schema}.operator_log (actor, action, queue, group_key, reason, details)
VALUES (%(actor)s, %(action)s, %(queue)s, %(group_key)s, %(reason)s, %(details)s::jsonb)
RETURNING operation_id
