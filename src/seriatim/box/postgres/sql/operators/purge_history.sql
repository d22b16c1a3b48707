-- Purpose: delete the next entries of a queue that were done before some moment; their references are noted.
-- Locks: the deleted rows, which no other transaction needs.
-- Index: history_pkey.
WITH old AS MATERIALIZED (
    SELECT queue_id, done_at, entry_id FROM {schema}.history
    WHERE queue_id = %(queue_id)s AND done_at >= %(since)s AND done_at < %(before)s
    ORDER BY done_at LIMIT %(batch)s
), gone AS (
    DELETE FROM {schema}.history AS done USING old
    WHERE done.queue_id = old.queue_id AND done.done_at = old.done_at AND done.entry_id = old.entry_id
    RETURNING done.done_at
)
SELECT count(*) AS history, max(done_at) AS since FROM gone
