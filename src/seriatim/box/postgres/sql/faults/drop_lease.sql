-- Purpose: take a lease away; whether it was there, and its group free in time.
-- Caller: lease.py, actions.py.
-- Locks: the group's advisory lock, and the lease's row, until the transaction ends.
-- Index: leases_pkey.
SELECT {schema}.drop_lease(%(queue_id)s, %(token)s, %(expired)s, %(patience_ms)s)
