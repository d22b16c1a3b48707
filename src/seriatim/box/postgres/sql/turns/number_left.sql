-- Purpose: number what transactions published that have ended without numbering it, because triggers were switched off.
-- Caller: tick.py and purge.py.
-- Locks: the rows, and the advisory locks of their locations, until the transaction ends.
-- Index: arrivals_pkey.
SELECT {schema}.number_left() AS messages
