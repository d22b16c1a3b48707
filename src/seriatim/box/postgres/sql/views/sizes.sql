-- Purpose: how large a box is, table by table with its indexes and partitions, and what it runs on. Rows are
-- PostgreSQL's own estimates: `rows` that are there, `dead_rows` that vacuum will take away.
-- Index: the catalog's own.
SELECT
    coalesce(parent.relname, class.relname)::text AS name,
    sum(pg_stat_get_live_tuples(class.oid))::bigint AS rows,
    sum(pg_stat_get_dead_tuples(class.oid))::bigint AS dead_rows,
    sum(pg_total_relation_size(class.oid))::bigint AS size_bytes
FROM pg_class AS class
JOIN pg_namespace AS space ON space.oid = class.relnamespace
LEFT JOIN pg_inherits AS part ON part.inhrelid = class.oid
LEFT JOIN pg_class AS parent ON parent.oid = part.inhparent
WHERE space.nspname = %(schema)s AND class.relkind IN ('r', 'm', 'S')
GROUP BY 1
ORDER BY 4 DESC, 1
