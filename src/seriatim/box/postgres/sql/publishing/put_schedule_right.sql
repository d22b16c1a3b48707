-- Purpose: give a schedule an earlier time, if its own comes from a clock that was ahead.
-- Locks: the row.
-- Index: schedules_pkey.
UPDATE {schema}.schedules SET next_at = least(next_at, %(next_at)s::timestamptz), look_at = NULL WHERE schedule = %(name)s
