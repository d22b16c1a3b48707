-- Purpose: set how long message ids are remembered.
-- Locks: the box's row of keeping.
-- Index: none; one row.
UPDATE {schema}.keeping SET message_ids_for = %(period)s
