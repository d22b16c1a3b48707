-- Purpose: have PostgreSQL plan the cursors of this transaction for all of their rows.
SELECT set_config('cursor_tuple_fraction', '1', TRUE)
