-- Purpose: the law of conservation, group by group: each message is decided or held. Return the violations.
-- Locks: none; one statement, so it is all of one moment.
-- Index: none for the groups, all of which are read; entries_of_group.
SELECT place.queue, known.group_key, known.arrivals AS taken, total.decided, entry.held
FROM {schema}.known_groups AS known
JOIN {schema}.queues AS place USING (queue_id)
CROSS JOIN LATERAL (SELECT sum(one)::bigint AS decided FROM unnest(known.decided) AS one) AS total
CROSS JOIN LATERAL (
    SELECT count(*) AS held FROM {schema}.entries AS entry
    WHERE entry.queue_id = known.queue_id AND entry.group_key = known.group_key AND entry.status = 'held'
) AS entry
WHERE known.arrivals <> total.decided + entry.held
LIMIT %(most)s
