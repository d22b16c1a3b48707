-- Purpose: the next due schedule, locked until it is moved on; skips a schedule that another process has locked.
-- Locks: the row.
-- Index: none; the table is small.
SELECT schedule, definition::text AS definition, next_at, clock_timestamp() AS now
FROM {schema}.schedules
WHERE next_at <= clock_timestamp() AND paused_at IS NULL AND (look_at IS NULL OR look_at <= clock_timestamp())
ORDER BY next_at LIMIT 1 FOR UPDATE SKIP LOCKED
