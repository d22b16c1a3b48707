-- Purpose: cut the batches of a reader into parts of about the same size, groups whole.
-- Index: entries_in_hand, without the table.
SELECT percentile_disc(%(fractions)s::float8[]) WITHIN GROUP (ORDER BY group_key) AS bounds
FROM {schema}.entries
WHERE queue_id = %(queue_id)s AND batch > %(after)s AND batch <= %(through)s
