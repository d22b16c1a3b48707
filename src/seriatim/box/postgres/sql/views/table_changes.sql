-- Purpose: how often each table was changed, to find later changes.
-- Index: none; the server keeps these numbers in memory.
SELECT
    relname AS name,
    pg_stat_get_tuples_inserted(oid) + pg_stat_get_tuples_updated(oid) + pg_stat_get_tuples_deleted(oid) AS changes
FROM pg_class
WHERE relkind = 'r' AND relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = %(schema_name)s::text)
