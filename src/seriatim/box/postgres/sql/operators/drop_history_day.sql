-- Purpose: take away the part of the history for a day, if it is empty.
-- Caller: purge.py, in a transaction of its own.
-- Locks: the history, for a moment.
-- Index: none.
SELECT {schema}.drop_history_day(%(day)s) AS dropped
