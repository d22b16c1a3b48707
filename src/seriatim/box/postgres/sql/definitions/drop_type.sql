-- Purpose: take a message type away.
-- Locks: the type's row.
-- Index: types_pkey.
DELETE FROM {schema}.types WHERE type = %(name)s
