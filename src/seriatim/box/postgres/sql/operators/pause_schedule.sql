-- Purpose: pause a schedule. No row if it was paused already.
-- Locks: the row; waits for a process that publishes for it.
-- Index: schedules_pkey.
UPDATE {schema}.schedules SET paused_at = now(), paused_by = %(actor)s WHERE schedule = %(name)s AND paused_at IS NULL
RETURNING schedule
