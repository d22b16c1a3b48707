-- Purpose: the groups of the gate {1} whose next number differs from the next one of their origin's group, in the queue
-- {0}: `next`.
SELECT wanted.group_key, coalesce(given.last, 0) + 1 AS next
FROM (
    SELECT numbered.group_key, max(numbered.last) AS last FROM (
        SELECT group_key, ordinal AS last FROM {schema}.known_groups WHERE queue_id = {0}
        UNION ALL
        SELECT group_key, first + count - 1 FROM {schema}.place_runs WHERE queue_id = {0}
    ) AS numbered
    GROUP BY numbered.group_key
) AS given
FULL JOIN (
    SELECT group_key, next FROM {schema}.known_groups WHERE queue_id = {1}
) AS at_gate ON at_gate.group_key = given.group_key
CROSS JOIN LATERAL (SELECT coalesce(given.group_key, at_gate.group_key) AS group_key) AS wanted
WHERE coalesce(at_gate.next, 1) <> coalesce(given.last, 0) + 1
