-- Purpose: begin_turn.sql for a queue of a service: messages that go ahead get their places before the read.
-- Locks: an advisory lock for the group, until the transaction ends; entries and groups, which only a turn locks.
-- Index: those of lock_next.sql and turn_dialogs.sql.
{begun_turn()}
LEFT JOIN LATERAL (
    SELECT entries.*, known.*, asked.*
    -- Without a locked group nothing else is called.
    FROM (SELECT locked.group_keys WHERE cardinality(locked.group_keys) > 0 OFFSET 0) AS wanted
    CROSS JOIN LATERAL {requests_of_turn(%(queue_id)s, wanted.group_keys)}
    CROSS JOIN LATERAL {schema}.place_ahead(asked.queue_id, wanted.group_keys, %(fresh)s::bigint[]) AS placed (queue_id)
    CROSS JOIN LATERAL {schema}.turn_entries(
        placed.queue_id, wanted.group_keys, %(at_most)s, %(most_arrived)s, %(most_held)s, %(settled)s::xid8, %(unsettled)s::xid8[]
    ) AS entries
    {groups_of_turn(placed.queue_id, wanted.group_keys)}
) AS turn ON TRUE
