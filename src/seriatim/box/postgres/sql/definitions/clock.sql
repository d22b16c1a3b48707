-- Purpose: the database's clock.
-- Caller: definitions/schedules.py, views/schedules.py, schedules/run.py.
-- Locks: none.
-- Index: none.
SELECT clock_timestamp()
