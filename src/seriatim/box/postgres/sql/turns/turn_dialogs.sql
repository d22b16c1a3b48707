-- Purpose: turn.sql for a queue of a service: messages that go ahead get their places before.
-- Locks: entries and groups, which only a turn locks.
-- Index: entries_of_group, tickets_arrival_id_key, known_groups_pkey; requests_asked (next to empty).
SELECT entries.*, known.*, asked.*
FROM {schema}.place_ahead(%(queue_id)s, %(group_keys)s::text[], %(fresh)s::bigint[]) AS placed (queue_id)
CROSS JOIN LATERAL {schema}.turn_entries(
    placed.queue_id, %(group_keys)s::text[], %(at_most)s, %(most_arrived)s, %(most_held)s, %(settled)s::xid8, %(unsettled)s::xid8[]
) AS entries
{groups_of_turn(placed.queue_id, %(group_keys)s::text[])}
