-- Purpose: delete unique keys whose messages don't wait any more; it checks at most `batch` of those older than
-- `before`.
-- Locks: the rows that it deletes; those that a publisher has locked are left out.
-- Index: unique_keys_by_age, entries_of_message.
WITH old AS MATERIALIZED (
    SELECT known.queue_id, known.id_space, known.unique_key
    FROM {schema}.unique_keys AS known
    WHERE known.claimed_at < %(before)s AND NOT EXISTS (
        SELECT FROM {schema}.entries AS entry
        WHERE entry.arrival_id = ANY (ARRAY[known.arrival_id]) AND entry.position = ANY (ARRAY[known.position])
            AND (entry.queue_id = known.queue_id) IS TRUE
    )
    ORDER BY known.claimed_at LIMIT %(batch)s FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM {schema}.unique_keys AS known USING old
    WHERE known.queue_id = old.queue_id AND known.id_space = old.id_space AND known.unique_key = old.unique_key
    RETURNING known.queue_id
)
SELECT count(*) AS looked FROM gone
