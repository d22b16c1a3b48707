-- Purpose: the fencing token of the lease that a group is in.
-- Index: leases_queue_id_group_key_key.
SELECT token FROM {schema}.leases WHERE queue_id = %(queue_id)s AND group_key = %(group_key)s
