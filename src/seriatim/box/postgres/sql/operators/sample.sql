-- Purpose: note the sizes of the tables, unless it was done within the hour.
-- Index: samples_pkey; the catalog's own.
INSERT INTO {schema}.samples (name, rows, size_bytes)
SELECT
    coalesce(parent.relname, class.relname)::text,
    sum(pg_stat_get_live_tuples(class.oid))::bigint,
    sum(pg_total_relation_size(class.oid))::bigint
FROM pg_class AS class
LEFT JOIN pg_inherits AS part ON part.inhrelid = class.oid
LEFT JOIN pg_class AS parent ON parent.oid = part.inhparent
WHERE class.relnamespace = '{schema}'::regnamespace AND class.relkind = 'r'
    AND NOT EXISTS (SELECT FROM {schema}.samples WHERE taken_at > now() - interval '1 hour')
GROUP BY 1
ON CONFLICT DO NOTHING
