-- Purpose: how large a box is, and what it runs on.
-- Caller: status.py.
-- Locks: none.
-- Index: the catalog's own.
SELECT
    current_setting('server_version') AS postgresql,
    coalesce(sum(pg_total_relation_size(class.oid)), 0)::bigint AS size_bytes
FROM pg_class AS class JOIN pg_namespace AS space ON space.oid = class.relnamespace
WHERE space.nspname = %(schema)s AND class.relkind IN ('r', 'm', 'S')
