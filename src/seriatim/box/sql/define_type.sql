-- Purpose: make a message type, or change one. Answers with a row if that changed anything.
-- Caller: define.py.
-- Locks: the type's row.
-- Index: types_pkey.
INSERT INTO {schema}.types AS known (type, definition) VALUES (%(name)s, %(definition)s::jsonb)
ON CONFLICT (type) DO UPDATE SET definition = excluded.definition WHERE known.definition <> excluded.definition
RETURNING type
