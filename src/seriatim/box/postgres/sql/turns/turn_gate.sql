-- Purpose: turn.sql for a gate: its closed places first.
-- Index: entries_placed, entries_on_way, entries_of_group, tickets_arrival_id_key, known_groups_pkey; requests_of_group.
SELECT closed.void_places, closed.void_numbers, closed.more, closed.full_groups,
    closed.late_places, closed.late_numbers, entries.*, known.*, asked.*
FROM {requests_of_turn(%(queue_id)s, %(group_keys)s::text[])}
CROSS JOIN LATERAL {schema}.close_places(
    asked.queue_id, %(origin_id)s, %(group_keys)s::text[], %(most_places)s, %(open_at_most)s, %(forced)s::bigint[]
) AS closed
CROSS JOIN LATERAL {schema}.turn_entries_gate(
    %(queue_id)s, closed.group_keys, %(at_most)s, closed.through, closed.behind
) AS entries
{groups_of_turn(%(queue_id)s, closed.group_keys)}
