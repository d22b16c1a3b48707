-- Purpose: the law of gates: a closed place of a group that isn't stopped waits for nothing but an open place before
-- it, a hole whose clock runs or whose time is over, or a requested look. Return the groups that break it, with the
-- first result that waits.
-- Locks: none; one statement, so it is all of one moment.
-- Index: entries_placed, entries_on_way; none for the rest.
SELECT place.queue, waiting.group_key, waiting.number
FROM (
    SELECT entry.queue_id, entry.group_key, min(entry.origin_number) AS number
    FROM {schema}.entries AS entry WHERE entry.status = 'placed' GROUP BY 1, 2
) AS waiting
JOIN {schema}.queues AS place USING (queue_id)
LEFT JOIN {schema}.known_groups AS known USING (queue_id, group_key)
WHERE coalesce(known.flags, 0) & {STOPPING} = 0 AND coalesce(known.since, {NEVER}) = {NEVER} AND coalesce(known.reports, 0) = 0
    AND NOT EXISTS (
        SELECT FROM {schema}.requests AS asked WHERE asked.queue_id = waiting.queue_id AND asked.group_key = waiting.group_key
    )
    AND NOT EXISTS (
        SELECT FROM {schema}.entries AS entry
        WHERE entry.gate_id = waiting.queue_id AND entry.gate_id <> entry.queue_id
            AND coalesce(entry.origin_group, entry.group_key) = waiting.group_key
            AND coalesce(entry.origin_number, entry.ordinal) BETWEEN coalesce(known.next, 1) AND waiting.number
    )
LIMIT %(most)s
