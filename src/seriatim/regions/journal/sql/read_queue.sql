-- What both regions say of a queue.
SELECT start, increment, attempts, goes_on, retry_after, hole_timeout, forgotten_before, over_before
FROM {schema}.queues
WHERE name = %(name)s AND queue = %(queue)s
