-- Purpose: make the part of the history for a day.
-- Caller: purge.py, in a transaction of its own for each day.
-- Locks: the rest of the history, for a moment.
-- Index: none; the rest is looked through.
SELECT {schema}.add_history_day(%(day)s) AS added
