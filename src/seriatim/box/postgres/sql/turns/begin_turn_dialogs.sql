-- Purpose: as begin_turn.sql, for a queue of a service: what goes ahead is put in its place before it is read.
-- Caller: turns.py.
-- Locks: an advisory lock for the group, until the transaction ends; entries and groups, which only a turn locks.
-- Index: those of lock_next.sql and turn_dialogs.sql.
SELECT
    locked.group_keys AS locked_keys, locked.now_us, locked.isolation, locked.version, locked.unrouted AS locked_unrouted,
    locked.many,
    CASE WHEN cardinality(locked.group_keys) = 0 THEN EXISTS (SELECT FROM {schema}.expired_leases(%(queue_id)s)) END AS has_expired,
    turn.*
FROM {schema}.lock_groups(
    %(queue_id)s, %(group_key)s, 1, %(now_us)s, %(from_rank)s, %(settled)s::xid8, %(unsettled)s::xid8[]
) AS locked
LEFT JOIN LATERAL (
    SELECT entries.*, known.*, asked.*
    -- Where no group is locked nothing else is called.
    FROM (SELECT WHERE cardinality(locked.group_keys) > 0 OFFSET 0) AS wanted
    CROSS JOIN LATERAL {schema}.place_ahead(%(queue_id)s, locked.group_keys, %(fresh)s::bigint[]) AS placed (queue_id)
    CROSS JOIN LATERAL {schema}.turn_entries(
        placed.queue_id, locked.group_keys, %(at_most)s, %(most_arrived)s, %(most_held)s, %(settled)s::xid8, %(unsettled)s::xid8[]
    ) AS entries
    CROSS JOIN LATERAL (
        SELECT
            array_agg(group_key) AS group_keys, array_agg(incarnation) AS incarnations, array_agg(state) AS states,
            array_agg(skipped::text) AS skipped, array_agg(arrivals) AS group_arrivals, array_agg(decided) AS decided,
            array_agg(remembered) AS remembered
        FROM {schema}.turn_groups(placed.queue_id, locked.group_keys)
    ) AS known
    CROSS JOIN LATERAL (
        SELECT array_agg(place) AS request_places, array_agg(request_id) AS request_ids, array_agg(action) AS actions
        FROM {schema}.turn_requests(placed.queue_id, locked.group_keys)
    ) AS asked
) AS turn ON TRUE
