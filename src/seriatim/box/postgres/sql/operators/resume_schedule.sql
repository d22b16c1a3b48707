-- Purpose: resume a paused schedule at its next due time. No row if it wasn't paused.
-- Locks: the row.
-- Index: schedules_pkey.
UPDATE {schema}.schedules SET
    paused_at = NULL, paused_by = NULL, next_at = %(next_at)s, failed_at = NULL, error = NULL, look_at = NULL
WHERE schedule = %(name)s AND paused_at IS NOT NULL
RETURNING schedule
