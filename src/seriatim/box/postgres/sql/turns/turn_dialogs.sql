-- Purpose: turn.sql for a queue of a service: messages that go ahead get their places before.
-- Locks: entries and groups, which only a turn locks.
-- Index: entries_of_group, tickets_arrival_id_key, known_groups_pkey; requests_of_group.
SELECT entries.*, known.*, asked.*
FROM {requests_of_turn(%(queue_id)s, %(group_keys)s::text[])}
CROSS JOIN LATERAL {schema}.place_ahead(asked.queue_id, %(group_keys)s::text[], %(fresh)s::bigint[]) AS placed (queue_id)
CROSS JOIN LATERAL {schema}.turn_entries(
    placed.queue_id, %(group_keys)s::text[], %(at_most)s, %(most_arrived)s, %(most_held)s, %(settled)s::xid8, %(unsettled)s::xid8[]
) AS entries
{groups_of_turn(placed.queue_id, %(group_keys)s::text[])}
