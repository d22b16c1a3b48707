-- Purpose: have PostgreSQL plan the cursors of this transaction for all of their rows.
-- Caller: postgres/statements.py.
-- Locks: none.
-- Index: none.
SELECT set_config('cursor_tuple_fraction', '1', TRUE)
