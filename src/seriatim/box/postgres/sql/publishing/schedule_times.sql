-- Purpose: the schedules with their next times.
-- Index: none; the table is small.
SELECT schedule, definition::text AS definition, next_at, look_at, paused_at IS NOT NULL AS is_paused
FROM {schema}.schedules ORDER BY schedule
