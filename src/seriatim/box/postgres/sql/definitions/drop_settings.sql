-- Purpose: delete the settings of the box, so that it has the defaults.
-- Locks: the row, which nobody else writes.
-- Index: none; there is one row at most.
DELETE FROM {schema}.settings
