-- Through which numbers groups are delivered; those of which nothing is aren't there.
SELECT group_key, through
FROM {schema}.delivered
WHERE pipeline = %(pipeline)s AND destination = %(destination)s AND group_key = ANY(%(groups)s::text[])
