-- Purpose: how many groups of each queue have a suspected restart of their producer, with one of them.
-- Index: groups_suspected.
SELECT place.queue, count(*) AS groups, min(known.group_key) AS "group"
FROM {schema}.known_groups AS known
JOIN {schema}.queues AS place USING (queue_id)
CROSS JOIN LATERAL (
    -- A type's own policy, if the key begins with the type; older definitions lack it.
    SELECT coalesce((
        coalesce(place.definition -> 'policies' -> split_part(known.group_key, '/', 1), place.definition -> 'policy')
        ->> 'restart_after'
    )::bigint, 8) AS after
) AS policy
WHERE known.suspects > 0 AND policy.after > 0 AND known.suspects >= policy.after
GROUP BY place.queue
ORDER BY place.queue
