-- Purpose: pause a schedule. Answers with a row if it wasn't paused.
-- Locks: the row; whoever publishes for it at this moment is waited for.
-- Index: schedules_pkey.
UPDATE {schema}.schedules SET paused_at = now(), paused_by = %(actor)s WHERE schedule = %(name)s AND paused_at IS NULL
RETURNING schedule
