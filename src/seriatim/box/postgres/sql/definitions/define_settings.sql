-- Purpose: set the settings of the box as a whole.
-- Locks: the row, which nobody else writes.
-- Index: settings_pkey.
INSERT INTO {schema}.settings (definition) VALUES (%(definition)s::jsonb)
ON CONFLICT (single) DO UPDATE SET definition = excluded.definition
