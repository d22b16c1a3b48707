-- Purpose: of the table {0}, if it is the one that is read, the next `most` messages after one.
SELECT one.arrival_id, one.position FROM {schema}.{0} AS one
WHERE %(among)s = '{0}' AND (one.arrival_id, one.position) > (%(after_arrival)s::bigint, %(after_position)s::bigint)
ORDER BY one.arrival_id, one.position LIMIT %(most)s
