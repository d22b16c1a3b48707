-- How far the groups of a pipeline are delivered. With a destination, or a group: these only.
SELECT destination, group_key, through, delivered_at
FROM {schema}.delivered
WHERE pipeline = %(pipeline)s
    AND (%(destination)s::text IS NULL OR destination = %(destination)s)
    AND (%(group)s::text IS NULL OR group_key = %(group)s)
ORDER BY destination, group_key
LIMIT %(limit)s
