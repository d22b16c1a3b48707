-- Purpose: forget the next message ids that were published before some moment.
-- Locks: the deleted rows. A publisher of one of them waits for it, and then publishes.
-- Index: message_ids_by_age, message_ids_pkey.
WITH old AS MATERIALIZED (
    SELECT message_id, id_space, published_at FROM {schema}.message_ids
    WHERE published_at >= %(since)s AND published_at < %(before)s
    ORDER BY published_at LIMIT %(batch)s
), gone AS (
    DELETE FROM {schema}.message_ids AS known USING old
    WHERE known.message_id = old.message_id AND known.id_space = old.id_space
    RETURNING known.published_at
)
SELECT count(*) AS message_ids, max(published_at) AS since FROM gone
