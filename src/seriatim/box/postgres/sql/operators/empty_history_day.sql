-- Purpose: empty the part of the history for a day at once, if all of it may go; what it refers to is noted.
-- Caller: purge.py.
-- Locks: that part, which nobody writes into any more.
-- Index: the part's primary key, one look a queue.
SELECT {schema}.empty_history_day(%(day)s, %(staying)s::integer[]) AS entries
