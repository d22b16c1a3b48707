-- Purpose: take the settings of the box back, so that it has the defaults.
-- Caller: define.py, under the lock of the definitions.
-- Locks: the row, which nobody else writes.
-- Index: none; there is one row at most.
DELETE FROM {schema}.settings
