-- Purpose: the entries of a group that the transaction has set aside as dead or invalid: they have its moment.
-- Caller: failures.py, after an operator's action, under the lock of the group.
-- Locks: none.
-- Index: aside_of_group.
SELECT entry_id FROM {schema}.aside
WHERE queue_id = %(queue_id)s AND group_key = %(group_key)s AND disposition IN ('dead', 'invalid') AND aside_at = now()
ORDER BY entry_id
