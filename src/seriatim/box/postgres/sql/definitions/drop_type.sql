-- Purpose: drop a message type.
-- Locks: the type's row.
-- Index: types_pkey.
DELETE FROM {schema}.types WHERE type = %(name)s
