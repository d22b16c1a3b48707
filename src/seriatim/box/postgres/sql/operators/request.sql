-- Purpose: ask something of a group that is locked; its next turn obeys.
-- Caller: actions.py.
-- Locks: none.
-- Index: none.
INSERT INTO {schema}.requests (queue_id, group_key, action, rank)
VALUES (%(queue_id)s, %(group_key)s, %(action)s, {schema}.now_us())
