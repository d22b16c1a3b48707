-- Purpose: how many messages a reader has in hand, in some batches.
-- Index: entries_in_hand.
SELECT count(*) AS messages FROM {schema}.entries
WHERE queue_id = %(queue_id)s AND batch > %(after)s AND batch <= %(through)s
