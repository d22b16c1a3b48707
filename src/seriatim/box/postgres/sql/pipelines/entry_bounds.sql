-- Purpose: cut the content of a queue into parts of about the same size.
-- Index: entries_of_group.
SELECT percentile_disc(%(fractions)s::float8[]) WITHIN GROUP (ORDER BY entry_id) AS bounds
FROM {schema}.entries WHERE queue_id = %(queue_id)s
