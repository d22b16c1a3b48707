-- Purpose: drop a schedule.
-- Locks: the row; waits for a process that publishes for it.
-- Index: schedules_pkey.
DELETE FROM {schema}.schedules WHERE schedule = %(name)s
