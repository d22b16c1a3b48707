-- Purpose: in how many seconds a schedule is due; NULL: none is.
-- Index: none; the table is small.
SELECT extract(epoch FROM min(greatest(next_at, look_at)) - clock_timestamp())::float8
FROM {schema}.schedules WHERE next_at IS NOT NULL AND paused_at IS NULL
