-- Purpose: the rules of dialogs, which a migration writes down and nobody changes.
-- Caller: schema_comparison.py.
-- Locks: none.
-- Index: none; all of it is read.
SELECT string_agg(rule::text, E'\n' ORDER BY rule::text) AS rules FROM {schema}.dialog_rules AS rule
