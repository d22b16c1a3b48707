-- Purpose: whether a lease is still its worker's.
-- Caller: lease.py.
-- Locks: none, so that the lease can be renewed while its handler's transaction is open.
-- Index: leases_pkey.
SELECT {schema}.is_held(%(queue_id)s, %(token)s)
