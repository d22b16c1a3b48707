-- Purpose: the first messages of a lease are done; whether it is still its worker's.
-- Caller: lease.py, which completes them in the same transaction.
-- Locks: the group's advisory lock, and the lease's row, until the transaction ends.
-- Index: leases_pkey, known_groups_pkey, entries_of_group.
SELECT {schema}.settle_lease(%(queue_id)s, %(token)s, %(how_many)s, %(ends)s)
