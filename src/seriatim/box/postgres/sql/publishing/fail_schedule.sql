-- Purpose: note why a schedule couldn't publish; it is tried again after a while. Another process may have published for it meanwhile.
-- Locks: the row.
-- Index: schedules_pkey.
UPDATE {schema}.schedules SET
    failed_at = coalesce(failed_at, now()), error = %(why)s, look_at = clock_timestamp() + %(pause)s::interval
WHERE schedule = %(name)s AND next_at = %(due)s
