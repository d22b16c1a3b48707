-- Purpose: the schedules with their results.
-- Index: none; the table is small and read whole.
SELECT
    schedule, definition::text AS definition, CASE WHEN paused_at IS NULL THEN next_at END AS next_at, last_at, last_message,
    published_at, published, failed_at, error, paused_at, paused_by,
    paused_at IS NULL AND next_at < clock_timestamp() - %(late)s::interval AS is_overdue
FROM {schema}.schedules ORDER BY schedule
