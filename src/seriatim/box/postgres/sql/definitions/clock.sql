-- Purpose: the database's clock.
-- Caller: definitions/schedules.py, views/clocks.py, operators/schedules.py.
-- Locks: none.
-- Index: none.
SELECT clock_timestamp()
