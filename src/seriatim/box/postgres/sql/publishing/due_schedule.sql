-- Purpose: the next schedule whose time has come, locked until it is moved on; one that somebody else has is left to him.
-- Locks: the row.
-- Index: none; the table is small.
SELECT schedule, definition::text AS definition, next_at, clock_timestamp() AS now
FROM {schema}.schedules
WHERE next_at <= clock_timestamp() AND paused_at IS NULL AND (look_at IS NULL OR look_at <= clock_timestamp())
ORDER BY next_at LIMIT 1 FOR UPDATE SKIP LOCKED
