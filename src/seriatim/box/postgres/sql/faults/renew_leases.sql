-- Purpose: put off the end of leases; which of them are still there.
-- Caller: lease.py.
-- Locks: the rows of the leases.
-- Index: leases_pkey.
SELECT {schema}.renew_leases(%(queue_id)s, %(tokens)s::bigint[], %(period)s)
