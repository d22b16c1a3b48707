-- Purpose: drop a schedule.
-- Locks: the row; whoever publishes for it at this moment is waited for.
-- Index: schedules_pkey.
DELETE FROM {schema}.schedules WHERE schedule = %(name)s
