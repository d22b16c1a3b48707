-- Purpose: lock one group to write down what its worker, which is gone, failed at.
-- Caller: faults.py.
-- Locks: the group's advisory lock, until the transaction ends.
-- Index: changes_pkey, its last entry.
SELECT locked, now_us, isolation, version FROM {schema}.lock_for_fault(%(queue_id)s, %(group_key)s, %(patience_ms)s)
