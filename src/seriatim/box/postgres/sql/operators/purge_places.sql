-- Purpose: of the next runs of place numbers, delete those that aren't the newest of their group: the next number is
-- computed from it.
-- Locks: the deleted rows, which no other transaction needs.
-- Index: place_runs_pkey.
WITH looked AS MATERIALIZED (
    SELECT queue_id, group_key, first FROM {schema}.place_runs
    WHERE (queue_id, group_key, first) > (%(queue_id)s, %(group_key)s, %(first)s)
    ORDER BY queue_id, group_key, first LIMIT %(batch)s
), gone AS (
    DELETE FROM {schema}.place_runs AS run USING looked
    WHERE run.queue_id = looked.queue_id AND run.group_key = looked.group_key AND run.first = looked.first AND EXISTS (
        SELECT FROM {schema}.place_runs AS newer
        WHERE newer.queue_id = looked.queue_id AND newer.group_key = looked.group_key AND newer.first > looked.first
    )
    RETURNING run.first
), last AS (
    SELECT queue_id, group_key, first FROM looked ORDER BY queue_id DESC, group_key DESC, first DESC LIMIT 1
)
SELECT
    (SELECT count(*) FROM looked) AS looked, last.queue_id, last.group_key, last.first, (SELECT count(*) FROM gone) AS places
FROM (SELECT) AS once LEFT JOIN last ON TRUE
