-- Purpose: the leases of a queue that have run out.
-- Caller: lease.py.
-- Locks: none.
-- Index: leases_queue_id_group_key_key; a queue has as many leases as workers have groups in hand.
SELECT token, group_key, entry_id, worker, expired_at FROM {schema}.expired_leases(%(queue_id)s)
