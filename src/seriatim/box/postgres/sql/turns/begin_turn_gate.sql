-- Purpose: begin_turn.sql for a gate: its closed places first.
-- Locks: an advisory lock for the group, until the transaction ends.
-- Index: those of lock_next.sql and turn_gate.sql.
{begun_turn()}
LEFT JOIN LATERAL (
    SELECT
        closed.void_places, closed.void_numbers, closed.more, closed.full_groups, closed.late_places, closed.late_numbers,
        entries.*, known.*, asked.*
    -- Without a locked group nothing else is called.
    FROM (SELECT locked.group_keys WHERE cardinality(locked.group_keys) > 0 OFFSET 0) AS wanted
    CROSS JOIN LATERAL {requests_of_turn(%(queue_id)s, wanted.group_keys)}
    CROSS JOIN LATERAL {schema}.close_places(asked.queue_id, %(origin_id)s, wanted.group_keys, %(most_places)s, %(open_at_most)s) AS closed
    CROSS JOIN LATERAL {schema}.turn_entries_gate(
        %(queue_id)s, closed.group_keys, %(at_most)s, closed.through, closed.behind
    ) AS entries
    {groups_of_turn(%(queue_id)s, closed.group_keys)}
) AS turn ON TRUE
