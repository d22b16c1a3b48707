-- Purpose: make a message type, or change one.
-- Locks: the type's row.
-- Index: types_pkey.
INSERT INTO {schema}.types AS known (type, definition) VALUES (%(name)s, %(definition)s::jsonb)
ON CONFLICT (type) DO UPDATE SET definition = excluded.definition
