-- Purpose: the begin of a turn: `locked`, the group that it has locked, and `turn`, its data.
SELECT
    locked.group_keys AS locked_keys, locked.now_us, locked.isolation, locked.version, locked.unrouted AS locked_unrouted,
    locked.many,
    CASE WHEN cardinality(locked.group_keys) = 0 THEN EXISTS (SELECT FROM {schema}.expired_leases(%(queue_id)s)) END AS has_expired,
    turn.*
FROM {schema}.lock_groups(
    %(queue_id)s, %(group_key)s, 1, %(now_us)s, %(from_rank)s, %(settled)s::xid8, %(unsettled)s::xid8[]
) AS locked
