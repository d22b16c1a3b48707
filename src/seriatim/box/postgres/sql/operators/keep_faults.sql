-- Purpose: set how long faults are kept.
-- Locks: the box's row of keeping.
-- Index: none; one row.
UPDATE {schema}.keeping SET faults_for = %(period)s
