-- Purpose: the data of a turn: the requests for its groups, their entries as columns, and their state; in one row.
-- Index: entries_of_group, tickets_arrival_id_key, known_groups_pkey; requests_of_group.
SELECT entries.*, known.*, asked.*
FROM {requests_of_turn(%(queue_id)s, %(group_keys)s::text[])}
CROSS JOIN LATERAL {schema}.turn_entries(
    asked.queue_id, %(group_keys)s::text[], %(at_most)s, %(most_arrived)s, %(most_held)s, %(settled)s::xid8, %(unsettled)s::xid8[]
) AS entries
{groups_of_turn(asked.queue_id, %(group_keys)s::text[])}
