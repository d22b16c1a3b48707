-- Purpose: lock the next group that has something to do, or the named one, and read the data of its turn, in one row.
-- Each function takes its own snapshot: it reads rows that are younger than the lock.
-- Locks: an advisory lock for the group, until the transaction ends.
-- Index: those of lock_next.sql and turn.sql.
{begun_turn()}
LEFT JOIN LATERAL (
    SELECT entries.*, known.*, asked.*
    -- Without a locked group nothing else is called.
    FROM (SELECT locked.group_keys WHERE cardinality(locked.group_keys) > 0 OFFSET 0) AS wanted
    CROSS JOIN LATERAL {requests_of_turn(%(queue_id)s, wanted.group_keys)}
    CROSS JOIN LATERAL {schema}.turn_entries(
        asked.queue_id, wanted.group_keys, %(at_most)s, %(most_arrived)s, %(most_held)s, %(settled)s::xid8, %(unsettled)s::xid8[]
    ) AS entries
    {groups_of_turn(asked.queue_id, wanted.group_keys)}
) AS turn ON TRUE
