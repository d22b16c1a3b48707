-- Purpose: the messages that say how a group stands: the first two that are queued, the first late one that is held, the
-- first other that is held, and the first that nobody has judged.
-- Caller: standing.py.
-- Locks: none.
-- Index: entries_of_group, spool_pkey, tickets_arrival_id_key. What is held or has arrived is sorted, for one group.
SELECT
    stored.message_id, stored.type, head.status, head.sequence, head.ordinal, head.late, head.attempt, head.visible_at,
    stored.received_at, head.entry_id
FROM (
    (
        SELECT one.*, 0 AS place, one.ordinal AS nth FROM {schema}.entries AS one
        WHERE queue_id = %(queue_id)s AND group_key = %(group_key)s AND status = 'queued'
        ORDER BY ordinal LIMIT 2
    ) UNION ALL (
        SELECT one.*, 1, 0 FROM {schema}.entries AS one
        WHERE queue_id = %(queue_id)s AND group_key = %(group_key)s AND status = 'held' AND late
        ORDER BY arrival LIMIT 1
    ) UNION ALL (
        SELECT one.*, 2, 0 FROM {schema}.entries AS one
        WHERE queue_id = %(queue_id)s AND group_key = %(group_key)s AND status = 'held' AND NOT late
        ORDER BY sequence, arrival LIMIT 1
    ) UNION ALL (
        SELECT one.*, 3, 0 FROM {schema}.entries AS one JOIN {schema}.tickets AS run USING (arrival_id)
        WHERE queue_id = %(queue_id)s AND group_key = %(group_key)s AND status = 'arrived'
        ORDER BY run.stamp, one.position LIMIT 1
    )
) AS head
JOIN {schema}.spool AS stored USING (arrival_id, position)
ORDER BY head.place, head.nth
