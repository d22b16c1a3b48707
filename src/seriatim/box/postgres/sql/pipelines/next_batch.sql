-- Purpose: the first of some batches of a reader that has messages.
-- Index: entries_in_hand, its first entry.
SELECT min(batch) AS batch FROM {schema}.entries
WHERE queue_id = %(queue_id)s AND batch > %(after)s AND batch <= %(through)s
