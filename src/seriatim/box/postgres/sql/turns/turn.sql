-- Purpose: the data of a turn: the entries of its groups as columns, their state, and operators' requests for them
-- meanwhile; in one row.
-- Index: entries_of_group, tickets_arrival_id_key, known_groups_pkey; requests_asked (next to empty).
SELECT entries.*, known.*, asked.*
FROM {schema}.turn_entries(
    %(queue_id)s, %(group_keys)s::text[], %(at_most)s, %(most_arrived)s, %(most_held)s, %(settled)s::xid8, %(unsettled)s::xid8[]
) AS entries
{groups_of_turn(%(queue_id)s, %(group_keys)s::text[])}
