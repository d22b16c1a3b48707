-- Purpose: the definitions of all schedules.
-- Index: none; the table is small and read whole.
SELECT schedule, definition::text AS definition FROM {schema}.schedules ORDER BY schedule
