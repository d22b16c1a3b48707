-- Purpose: of the next events, delete those that were recorded before some moment.
-- Locks: the deleted rows, which only the giver of positions may need, too.
-- Index: events_pkey.
WITH looked AS MATERIALIZED (
    SELECT event_id, recorded_at FROM {schema}.events
    WHERE event_id > %(after)s ORDER BY event_id LIMIT %(batch)s
), gone AS (
    DELETE FROM {schema}.events AS event USING looked
    WHERE event.event_id = looked.event_id AND looked.recorded_at < %(before)s
    RETURNING event.event_id
)
SELECT
    (SELECT count(*) FROM looked WHERE recorded_at < %(before)s) AS looked,
    (SELECT coalesce(max(event_id), 0) FROM looked) AS after,
    (SELECT count(*) FROM gone) AS events
