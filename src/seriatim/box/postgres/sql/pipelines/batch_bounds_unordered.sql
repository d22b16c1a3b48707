-- Purpose: cut the batches of a reader into parts of about the same size, where the queue has no groups.
-- Index: entries_in_hand.
SELECT percentile_disc(%(fractions)s::float8[]) WITHIN GROUP (ORDER BY entry_id) AS bounds
FROM {schema}.entries
WHERE queue_id = %(queue_id)s AND batch > %(after)s AND batch <= %(through)s
