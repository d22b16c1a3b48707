-- Purpose: by service the sides of dialogs whose other side has ended, or failed, and that have received all their
-- messages.
-- Index: endpoints_by_age: the oldest sides, which are those that stay; entries_of_group for each.
SELECT side.service, place.queue, count(*) AS dialogs, min(side.began_at) AS since
FROM (
    SELECT known.service, known.queue_id, known.group_id, known.state, known.began_at
    FROM {schema}.endpoints AS known ORDER BY known.began_at, known.handle LIMIT %(most)s
) AS side
JOIN {schema}.queues AS place USING (queue_id)
WHERE side.state IN ('DI', 'ER') AND NOT EXISTS (
    SELECT FROM {schema}.entries AS entry
    WHERE entry.queue_id = side.queue_id AND entry.group_key = side.group_id::text
)
GROUP BY side.service, place.queue
ORDER BY count(*) DESC, side.service
