-- Purpose: how often each table was changed, to tell what has changed since.
-- Caller: table_changes.py.
-- Locks: none.
-- Index: none; the server keeps these numbers in memory.
SELECT relname AS name, n_tup_ins + n_tup_upd + n_tup_del AS changes
FROM pg_stat_user_tables WHERE schemaname = %(schema_name)s::text
