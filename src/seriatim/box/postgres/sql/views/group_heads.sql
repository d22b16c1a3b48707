-- Purpose: the messages that show the state of a group: the first two that are queued, and the one that failed last if
-- it is none of them; the first late one that is held, the first other that is held, the first of an open place, and
-- the first unjudged one.
-- Index: entries_of_group, entries_placed, faults_of_group, spool_pkey, tickets_arrival_id_key. What is held or has
-- arrived is sorted, for one group.
WITH failed AS MATERIALIZED (
    SELECT entry_id FROM {schema}.faults WHERE queue_id = %(queue_id)s AND group_key = %(group_key)s
    ORDER BY fault_id DESC LIMIT 1
), first AS MATERIALIZED (
    SELECT one.* FROM {schema}.entries AS one
    WHERE queue_id = %(queue_id)s AND group_key = %(group_key)s AND status = 'queued'
    ORDER BY ordinal LIMIT 2
)
SELECT
    stored.message_id, stored.type, CASE head.status WHEN 'placed' THEN 'held' ELSE head.status::text END AS status, head.sequence, head.ordinal, head.late, head.attempt, head.visible_at,
    head.postponed, CASE WHEN head.postponed_until = head.visible_at THEN head.visible_at END AS postponed_until,
    stored.received_at, head.entry_id, head.entry_id IN (SELECT entry_id FROM failed) AS failed,
    ARRAY(
        SELECT one.subscription::text FROM {schema}.known_subscriptions AS one
        WHERE one.subscription_id = ANY (head.subscription_ids) AND NOT EXISTS (
            SELECT FROM {schema}.known_subscriptions AS started
            WHERE started.subscription_id = ANY (head.subscription_ids) AND started.state = 'started'
        )
        ORDER BY 1
    ) AS stopped
FROM (
    SELECT first.*, 0 AS place, first.ordinal AS nth FROM first
    UNION ALL
    SELECT one.*, 0, one.ordinal FROM {schema}.entries AS one
    WHERE one.entry_id IN (SELECT entry_id FROM failed EXCEPT SELECT entry_id FROM first) AND one.status = 'queued'
    UNION ALL (
        SELECT one.*, 1, 0 FROM {schema}.entries AS one
        WHERE queue_id = %(queue_id)s AND group_key = %(group_key)s AND status = 'held' AND late
        ORDER BY arrival LIMIT 1
    ) UNION ALL (
        SELECT one.*, 2, 0 FROM {schema}.entries AS one
        WHERE queue_id = %(queue_id)s AND group_key = %(group_key)s AND status = 'held' AND NOT late
        ORDER BY sequence, meaning[5:], arrival LIMIT 1
    ) UNION ALL (
        SELECT one.*, 3, 0 FROM {schema}.entries AS one
        WHERE queue_id = %(queue_id)s AND group_key = %(group_key)s AND status = 'placed'
        ORDER BY origin_number, entry_id LIMIT 1
    ) UNION ALL (
        SELECT one.*, 4, 0 FROM {schema}.entries AS one CROSS JOIN LATERAL (
            SELECT its.stamp FROM {schema}.tickets AS its WHERE its.arrival_id = one.arrival_id LIMIT 1
        ) AS run
        WHERE queue_id = %(queue_id)s AND group_key = %(group_key)s AND status = 'arrived'
        ORDER BY run.stamp, one.serial LIMIT 1
    )
) AS head
CROSS JOIN LATERAL (
    SELECT * FROM {schema}.spool AS one WHERE one.arrival_id = head.arrival_id AND one.position = head.position LIMIT 1
) AS stored
ORDER BY head.place, head.nth
