-- Purpose: the law behind the release, group by group: released = queued + in hand + done + dead. Messages are done in
-- the order of their ordinals; so all released messages from the first waiting one on must exist, each once: queued, in
-- hand, or dead. And a group that was never forgotten has given as many ordinals as it released messages. Return the
-- violations.
-- Locks: none; one statement, so it is all of one moment.
-- Index: none for the entries, all of which are read; known_groups_pkey, aside_of_group, history_of_group,
-- services_of_queue.
WITH waiting AS (
    SELECT queue_id, group_key, min(ordinal) AS first, max(ordinal) AS last, count(*) AS messages,
        count(DISTINCT ordinal) AS ordinals
    FROM {schema}.entries WHERE status IN ('queued', 'in_hand') AND ordinal IS NOT NULL
    GROUP BY queue_id, group_key
)
SELECT
    place.queue, known.group_key, known.ordinal AS released, known.decided[{decided.RELEASED}] AS counted,
    coalesce(waiting.messages, 0) AS waiting, dead.messages AS dead,
    coalesce(known.ordinal - waiting.first + 1, 0) AS expected, done.messages AS twice
FROM {schema}.known_groups AS known
JOIN {schema}.queues AS place USING (queue_id)
LEFT JOIN waiting USING (queue_id, group_key)
CROSS JOIN LATERAL (
    SELECT count(DISTINCT aside.ordinal) AS messages FROM {schema}.aside AS aside
    WHERE aside.queue_id = known.queue_id AND aside.group_key = known.group_key AND aside.disposition = 'dead'
        AND aside.ordinal BETWEEN waiting.first AND known.ordinal
        AND NOT EXISTS (
            SELECT FROM {schema}.entries AS entry
            WHERE entry.queue_id = aside.queue_id AND entry.group_key = aside.group_key
                AND entry.status IN ('queued', 'in_hand') AND entry.ordinal = aside.ordinal
        )
) AS dead
CROSS JOIN LATERAL (
    SELECT count(*) AS messages FROM {schema}.history AS done
    WHERE waiting.first IS NOT NULL AND done.queue_id = known.queue_id AND done.group_key = known.group_key
        AND done.incarnation = known.incarnation AND done.ordinal >= waiting.first
) AS done
WHERE place.definition #>> '{policy,name}' <> 'unordered' AND (
    waiting.messages > waiting.ordinals
    OR waiting.first < 1
    OR waiting.last > known.ordinal
    OR done.messages > 0
    -- An operator who puts a dead letter behind all others, or deletes it, leaves an ordinal that nothing has; so does
    -- the end of a dialog, which takes what waits for it out of its group.
    OR (
        known.incarnation = 0 AND known.ordinal <> known.decided[{decided.RELEASED}]
        OR waiting.ordinals + dead.messages <> known.ordinal - waiting.first + 1
    ) AND NOT EXISTS (
        SELECT FROM {schema}.operator_log AS done
        WHERE done.queue = place.queue AND done.group_key = known.group_key
            AND done.action IN ('requeue', 'delete') AND done.details ->> 'status' = 'dead'
    ) AND NOT EXISTS (
        SELECT FROM {schema}.known_services AS serving WHERE serving.queue_id = known.queue_id
    )
)
LIMIT %(most)s
