-- Purpose: as `begin_turn`, for a gate: lock the next group that has something to do, or the named one, and read what a turn has to know of it, in one
-- row. Each function takes a snapshot of its own: what is read is younger than the lock.
-- Caller: turns.py.
-- Locks: an advisory lock for the group, until the transaction ends.
-- Index: those of lock_next.sql and turn.sql.
SELECT
    locked.group_keys AS locked_keys, locked.now_us, locked.isolation, locked.version, locked.unrouted AS locked_unrouted,
    locked.many,
    CASE WHEN cardinality(locked.group_keys) = 0 THEN EXISTS (SELECT FROM {schema}.expired_leases(%(queue_id)s)) END AS has_expired,
    turn.*
FROM {schema}.lock_groups(
    %(queue_id)s, %(group_key)s, 1, %(now_us)s, %(from_rank)s, %(settled)s::xid8, %(unsettled)s::xid8[]
) AS locked
LEFT JOIN LATERAL (
    SELECT
        closed.void_places, closed.void_numbers, closed.more, closed.full_groups, closed.late_places, closed.late_numbers,
        entries.*, known.*, asked.*
    -- Where no group is locked nothing else is called.
    FROM (SELECT WHERE cardinality(locked.group_keys) > 0 OFFSET 0) AS wanted
    CROSS JOIN LATERAL {schema}.close_places(%(queue_id)s, %(origin_id)s, locked.group_keys, %(most_places)s, %(open_at_most)s) AS closed
    CROSS JOIN LATERAL {schema}.turn_entries_gate(
        %(queue_id)s, closed.group_keys, %(at_most)s, closed.through, closed.behind
    ) AS entries
    CROSS JOIN LATERAL (
        SELECT
            array_agg(group_key) AS group_keys, array_agg(incarnation) AS incarnations, array_agg(state) AS states,
            array_agg(skipped::text) AS skipped, array_agg(arrivals) AS group_arrivals, array_agg(decided) AS decided,
            array_agg(remembered) AS remembered
        FROM {schema}.turn_groups(%(queue_id)s, closed.group_keys)
    ) AS known
    CROSS JOIN LATERAL (
        SELECT array_agg(place) AS request_places, array_agg(request_id) AS request_ids, array_agg(action) AS actions
        FROM {schema}.turn_requests(%(queue_id)s, closed.group_keys)
    ) AS asked
) AS turn ON TRUE
