-- Purpose: set how long events are kept.
-- Locks: the box's row of keeping.
-- Index: none; one row.
UPDATE {schema}.keeping SET events_for = %(period)s
